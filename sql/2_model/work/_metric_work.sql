-- A row is what ran of one kernel, for ranges of one attribution, during one sample of its device's counters.
--
-- Kernels and graphs count: copies leave the multiprocessors alone. What the counters count in a sample is shared by what
-- ran in it, by time, and set against the time in which something ran.
--
--     sample        |------- 100 us, SMs 30 % -------|
--     kernel a           |== 20 us ==|                     a: 2/3 of 30 us active in 2/3 of 30 us with work
--     kernel b                            |= 10 us =|      b: 1/3 of both
--
-- columns:
--   source_id        integer   the input
--   device_id        integer   the device
--   window_id        bigint    the sample, see _metric_window
--   name_id          bigint    name of the kernel
--   attribution_id   bigint    the ranges that account for it, NULL without
--   sampled_ns       bigint    what ran of it in the sample's time
--   work_ns          bigint    what ran in it of all kernels and graphs
--   count_ns         double    the sample's time that is its share: a fraction of it is what the counters counted
--   busy_ns          double    its share of the time in which any of them ran
--   has_copies       boolean   whether memory was copied or set there by the device itself, which takes bandwidth from none of them

with
op as (
    select source_id, device_id, start_ns, end_ns, 'work' as part, name_id, attribution_id
    from gpu_op
    where kind in ('kernel', 'graph') and end_ns > start_ns and source_id in (select source_id from _metric_window)
    union all
    select source_id, device_id, start_ns, end_ns, 'busy', null, null
    from _device_activity
    where activity = 'compute or communication' and source_id in (select source_id from _metric_window)
    union all
    -- those of the host are as slow as its link
    select op.source_id, op.device_id, op.start_ns, op.end_ns, 'copies', null, null
    from gpu_op as op
    join name using (name_id)
    where op.kind in ('memcpy', 'memset') and op.source_id in (select source_id from _metric_window)
        and not regexp_matches(name.text, 'HtoD|DtoH')
),
begun as (
    select op.*, coalesce(first.window_id, 0) as first_id
    from op
    asof left join _metric_window as first
        on first.source_id = op.source_id and first.device_id = op.device_id and first.start_ns <= op.start_ns
),
ended as (
    select begun.*, last.window_id as last_id
    from begun
    asof join _metric_window as last
        on last.source_id = begun.source_id and last.device_id = begun.device_id and last.start_ns < begun.end_ns
),
piece as (
    select * exclude (first_id, last_id), unnest(range(first_id, last_id + 1)) as window_id
    from ended
),
part as (
    select
        piece.source_id,
        piece.device_id,
        piece.window_id,
        piece.part,
        piece.name_id,
        piece.attribution_id,
        any_value(sample.end_ns - sample.start_ns) as length_ns,
        sum(least(piece.end_ns, sample.end_ns) - greatest(piece.start_ns, sample.start_ns))::bigint as sampled_ns
    from piece
    join _metric_window as sample using (source_id, device_id, window_id)
    where least(piece.end_ns, sample.end_ns) > greatest(piece.start_ns, sample.start_ns)
    group by piece.source_id, piece.device_id, piece.window_id, piece.part, piece.name_id, piece.attribution_id
),
summed as (
    select
        *,
        sum(sampled_ns) filter (part = 'work') over same_sample as work_ns,
        sum(sampled_ns) filter (part = 'busy') over same_sample as any_ns,
        bool_or(part = 'copies') over same_sample as has_copies
    from part
    window same_sample as (partition by source_id, device_id, window_id)
)
select
    source_id,
    device_id,
    window_id,
    name_id,
    attribution_id,
    sampled_ns,
    work_ns::bigint as work_ns,
    length_ns * sampled_ns / work_ns as count_ns,
    any_ns * sampled_ns / work_ns as busy_ns,
    has_copies
from summed
where part = 'work'
