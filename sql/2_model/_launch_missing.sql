-- A row is an input in which much GPU work has no launch, though calls are recorded: most of it was launched before the recording
-- began. It is in no range.
--
-- A twentieth of the time of all work, or more. Pages of managed memory move without a call, and do not count.
--
-- columns:
--   source_id      integer   the input
--   missing_cnt    bigint    operations without a launch
--   op_cnt         bigint    all operations
--   missing_frac   double    their share of the time of all operations

select
    source_id,
    count(*) filter (api_call_id is null) as missing_cnt,
    count(*) as op_cnt,
    sum(end_ns - start_ns) filter (api_call_id is null) / nullif(sum(end_ns - start_ns), 0) as missing_frac
from gpu_op
semi join (select distinct source_id from api_call) as calling using (source_id)
where name_id not in (select name_id from name where contains(text, 'Unified Memory'))
group by source_id
having 20 * missing_frac >= 1
