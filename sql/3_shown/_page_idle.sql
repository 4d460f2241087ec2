-- A row is one reason why a device was idle, as the verdict has it, of one cause of idle_summary.
--
-- Of all that was recorded. Gaps in which work is not recorded (nobody knows whether the device was idle), and those in which
-- another device of the process worked, are rows of their own. Rows of one cause add up to idle_summary's.
--
-- columns:
--   source_id        integer   the input
--   device_id        integer   the device
--   part             varchar   the part of the answer: 'host', 'dependency', 'kernel_wait', 'unrecorded', 'in_turn', or
--                       'idle' where the clocks do not match: no launch tells why then
--   cause            varchar   the cause, as in idle_summary
--   gap_cnt          bigint    gaps
--   idle_ns          bigint    their summed length
--   behind_wait_ns   bigint    how much of it in gaps in which the CPU came back from waiting for the GPU
--   idle_frac        double    idle_ns as a fraction of the device's time without recorded work
--   max_ns           bigint    the longest

with
gap as (
    select
        gap.*,
        case
            when shift.source_id is not null then 'idle'
            when starts_with(gap.rule, 'unrecorded') then 'unrecorded'
            when gap.rule = 'devices_in_turn' then 'in_turn'
            else gap.cause
        end as part
    from _blamed_gap as gap
    left join _clock_shift as shift using (source_id)
)
select
    source_id,
    device_id,
    part,
    cause,
    count(*) as gap_cnt,
    sum(idle_ns)::bigint as idle_ns,
    coalesce(sum(idle_ns) filter (waited_kind is not null), 0)::bigint as behind_wait_ns,
    sum(idle_ns) / nullif(sum(sum(idle_ns)) over (partition by source_id, device_id), 0) as idle_frac,
    max(idle_ns) as max_ns
from gap
group by source_id, device_id, part, cause
order by source_id, device_id, idle_ns desc, part, cause
