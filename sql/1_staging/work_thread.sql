-- A row is one thread of the input that is being read, with the process that GPU work is matched in.
--
-- A Kineto trace does not say which process GPU work belongs to: its threads and its work share process 0.
--
-- needs: reading, source, thread

select
    thread.thread_id,
    thread.process_id,
    if(kind_has_one_process(source.kind), 0, thread.process_id) as work_process_id,
    coalesce(thread.pid = thread.tid, false) as is_main
from thread
join reading using (source_id)
join source using (source_id)
