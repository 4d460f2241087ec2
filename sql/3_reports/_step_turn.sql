-- A row is a step of an input; those of one number that follow one another (adapters in turn) are one.
--
-- columns:
--   source_id   integer   the input
--   turn_id     bigint    its place among them, from 1
--   found_by    varchar   how it was found, see step_summary
--   start_ns    bigint    begin of the first of them
--   wall_ns     bigint    their durations added up
--   busy_ns     bigint    how long their GPU work kept each device busy, on average
--   token_cnt   bigint    tokens, NULL where not known

with
next as (
    select
        *,
        step is distinct from lag(step) over (partition by source_id order by start_ns, range_id) as is_next
    from step_summary
),
numbered as (
    select *, sum(is_next::integer) over (partition by source_id order by start_ns, range_id) as turn_id
    from next
)
select
    source_id,
    turn_id::bigint as turn_id,
    any_value(found_by) as found_by,
    min(start_ns) as start_ns,
    sum(wall_ns)::bigint as wall_ns,
    (sum(gpu_busy_ns) / any_value(device.cnt))::bigint as busy_ns,
    any_value(token_cnt) as token_cnt
from numbered
left join (select source_id, count(distinct device_id) as cnt from gpu_op group by source_id) as device using (source_id)
group by source_id, turn_id
