-- A row is an input with steps, and how many.
--
-- columns:
--   source_id      integer   the input
--   step_cnt       bigint    steps, those of adapters in turn and of processes beside each other one by one
--   numbered_cnt   bigint    their numbers
--   process_cnt    bigint    processes that take them, see _work_process

select
    source_id,
    count(*) as step_cnt,
    count(distinct step) as numbered_cnt,
    count(distinct own.process) as process_cnt
from _step
left join _work_process as own using (source_id, thread_id)
group by source_id
