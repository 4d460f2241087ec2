-- A row is a thread and the process by which the GPU work of its launches is known.
--
-- A Kineto trace does not say which process GPU work belongs to: there it is 0 for all, as it is for work without one.
--
-- columns:
--   source_id   integer   the input
--   thread_id   bigint    the thread
--   process     bigint    what coalesce(process_id, 0) of its GPU work is

select
    thread.source_id,
    thread.thread_id,
    if(kind_has_one_process(source.kind), 0, coalesce(thread.process_id, 0)) as process
from thread
join source using (source_id)
