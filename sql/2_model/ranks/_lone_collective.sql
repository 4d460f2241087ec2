-- A row is a collective of an input that is read alone, as if the others of its job had matched it: in the step in which it
-- is called.
--
-- columns:
--   collective_id   bigint    the row of collective
--   match_id        bigint    the same
--   matched_by      varchar   NULL: nothing was matched
--   step            bigint    number of the step that it was called in, NULL before the first one
--   reason          varchar   NULL: it is not unmatched

with
found as (
    select collective_id, source_id, coalesce(start_ns, work_start_ns) as time_ns
    from collective
    where operation is not null
),
step as (
    select source_id, start_ns, any_value(step order by step) as step
    from _step
    group by source_id, start_ns
)
select
    found.collective_id,
    found.collective_id as match_id,
    null::varchar as matched_by,
    step.step,
    null::varchar as reason
from found
asof left join step on step.source_id = found.source_id and step.start_ns <= found.time_ns
