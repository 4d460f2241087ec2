-- A row is a stretch of time in which the CPU of a process waited for the GPU.
--
-- needs: reading, waiting_call, work_thread

select work_process_id as process, start_ns as start, end_ns as "end"
from waiting_call
semi join reading using (source_id)
join work_thread using (thread_id)
