-- A row is an input with steps, and how many processes take them: each step of the input is one of each.
--
-- columns:
--   source_id     integer   the input
--   process_cnt   bigint    processes, as _work_process has them

select source_id, count(distinct own.process) as process_cnt
from _step
join _work_process as own using (source_id, thread_id)
group by source_id
