-- A row is an outermost range of a thread that is not its process's main one.
--
-- needs: range, reading, work_thread

select work_process_id as process, thread_id as thread, start_ns as start, end_ns as "end"
from range
semi join reading using (source_id)
join work_thread using (thread_id)
where kind <> 'python' and parent_id is null and not is_main
order by start
