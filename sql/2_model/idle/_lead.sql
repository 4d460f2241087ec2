-- A row is an input whose first warm step begins long before any GPU work, as it fetches input, and how long before.
--
-- The device waits from then on; unless the work that it does first was launched long before it began, so that something
-- unrecorded came before, or the CPU is usually ahead: where later steps begin, the device has work left for half as long and
-- more, which hides what they begin with.
--
--     steps       | load launch launch    | load launch launch
--     device              [a    ][b    ]          [a    ][b    ]      idle at the second step's begin: the lead counts
--     device              [a         ][b         ][a      ][b         its queue is full there: the lead is hidden
--
-- columns:
--   source_id   integer   the input
--   lead_ns     bigint    more than the threshold long_gap_ns

with
first as (
    select source_id, min(start_ns) filter (not is_cold) as start_ns
    from _warm_step
    group by source_id
),
early as (
    select first.source_id, first.start_ns, op.start_ns - first.start_ns as lead_ns
    from (
        select
            source_id,
            min(start_ns) as start_ns,
            arg_min(launch_start_ns, start_ns) as launch_ns,
            arg_min(launch_end_ns, start_ns) as launched_ns
        from gpu_op
        group by source_id
    ) as op
    join first using (source_id)
    where op.launch_ns >= first.start_ns
        and 2 * (op.start_ns - op.launched_ns) <= op.start_ns - first.start_ns
        and op.start_ns - first.start_ns > (select value from threshold where name = 'long_gap_ns')
),
-- the work that was launched last before a later step
left_over as (
    select step.source_id, median(greatest(0, coalesce(op.end_ns, 0) - step.start_ns)) as ns
    from (select source_id, start_ns from _warm_step semi join early using (source_id) where not is_cold) as step
    asof left join (
        select source_id, launch_start_ns, end_ns from gpu_op semi join early using (source_id)
    ) as op
        on op.source_id = step.source_id and op.launch_start_ns < step.start_ns
    anti join early on early.source_id = step.source_id and early.start_ns = step.start_ns
    group by step.source_id
)
select early.source_id, early.lead_ns
from early
left join left_over using (source_id)
where 2 * coalesce(left_over.ns, 0) < early.lead_ns
