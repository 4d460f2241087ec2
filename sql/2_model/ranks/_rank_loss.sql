-- A row is what a rank spent on one thing on its way to a collective or in a step, beside the others of its stage.
--
-- meeting is the same for what is compared: a matched collective, or a step.
--
-- columns:
--   source_id   integer   the input
--   match_id    bigint    the match of the collective, NULL for a step
--   step        bigint    number of the step, NULL outside of steps
--   part        varchar   'compute', 'copies' (beside which nothing ran), 'exposed communication' (on the way to a collective
--         only, without waiting for others), or 'idle', with what it is blamed on
--   part_ns     bigint    how long it took, devices added up
--   excess_ns   bigint    part_ns minus the median of the ranks of the same stage, of an even number the lower of the middle
--         ones: where half of the ranks are late, what they are late by is the whole difference

with
part as materialized (
    select part.*, matched.match_id
    from _rank_part as part
    left join matched_collective as matched using (collective_id)
),
whole as (
    select
        source_id, collective_id, match_id, step, start_ns, end_ns,
        coalesce(sum(part_ns) filter (part = 'busy'), 0) as busy_ns,
        coalesce(sum(part_ns) filter (part = 'compute'), 0) as compute_ns,
        coalesce(sum(part_ns) filter (part = 'compute or communication'), 0) as active_ns,
        coalesce(sum(part_ns) filter (part like 'idle%'), 0) as blamed_ns
    from part
    group by all
),
loss as (
    select source_id, match_id, step, 'compute' as part, compute_ns as part_ns from whole
    union all
    select source_id, match_id, step, 'copies', busy_ns - active_ns from whole
    union all
    -- others keep a rank also while it computes (_rank_held)
    select whole.source_id, whole.match_id, whole.step, 'exposed communication',
        greatest(0, active_ns - compute_ns - way.stretch_ns)
    from whole
    join _rank_way as way using (collective_id)
    union all
    select source_id, match_id, step, 'idle', device_cnt * (end_ns - start_ns) - busy_ns - blamed_ns
    from whole
    join _rank_device using (source_id)
    union all
    select source_id, match_id, step, part, part_ns from part where part like 'idle%'
),
summed as materialized (
    select
        loss.source_id,
        loss.match_id,
        loss.step,
        loss.part,
        sum(loss.part_ns) as part_ns,
        ranked.kind,
        coalesce(loss.match_id::varchar, format('{} {}', ranked.kind, loss.step)) as meeting
    from loss
    join _several_ranks as ranked using (source_id)
    group by all
),
member as (
    select distinct meeting, source_id, match_id, step
    from summed
),
complete as (
    select member.*, stage.stage, used.part, coalesce(summed.part_ns, 0) as part_ns
    from member
    join (select distinct meeting, part from summed) as used using (meeting)
    left join summed
        on summed.meeting = member.meeting and summed.source_id = member.source_id and summed.part = used.part
    left join _stage as stage on stage.source_id = member.source_id
)
select
    source_id,
    match_id,
    step,
    part,
    part_ns::bigint as part_ns,
    (part_ns - quantile_disc(part_ns, 0.5) over (partition by meeting, stage, part))::bigint as excess_ns
from complete
