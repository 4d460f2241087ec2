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
--   are_before     boolean   whether they all come before what has a launch, of each process

with
counted as (
    select
        source_id,
        count(*) filter (api_call_id is null) as missing_cnt,
        count(*) as op_cnt,
        sum(end_ns - start_ns) filter (api_call_id is null) as missing_ns,
        sum(end_ns - start_ns) as all_ns,
        coalesce(max(start_ns) filter (api_call_id is null) <= min(start_ns) filter (api_call_id is not null), true) as are_before
    from gpu_op
    semi join (select distinct source_id from api_call) as calling using (source_id)
    where name_id not in (select name_id from name where moves_pages(text))
    group by source_id, process_id
)
select
    source_id,
    sum(missing_cnt)::bigint as missing_cnt,
    sum(op_cnt)::bigint as op_cnt,
    sum(missing_ns) / nullif(sum(all_ns), 0) as missing_frac,
    bool_and(are_before) as are_before
from counted
group by source_id
having 20 * missing_frac >= 1
