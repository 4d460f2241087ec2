-- A row is a kernel, a name path or an input: how it used the devices by their counters, see kernel_metric_summary.
--
-- columns:
--   source_id       integer   the input
--   name_id         bigint    the kernel's name, NULL for others
--   path_id         bigint    the name path, NULL for others; an input has neither, and is its steady state
--   sampled_ns      bigint    time of its kernels and graphs in which the counters were sampled
--   sampled_frac    double    sampled_ns as a fraction of all their time
--   alone_frac      double    part of sampled_ns in samples in which nothing else ran
--   is_telling      boolean   whether at least half of its time was sampled, and of that at least half alone
--   sm_active       double    part of the multiprocessors' time with work on them; NULL, as below, without such a counter
--   sm_issue        double    part of their cycles in which they issue an instruction
--   tensor_active   double    part of their cycles in which their tensor cores are at work
--   dram_read       double    part of the memory's bandwidth that reads take
--   dram_write      double    part of the memory's bandwidth that writes take
--   limited_by      varchar   see kernel_metric_summary and range_metric_summary

with
piece as (
    select * exclude (attribution_id), null::bigint as path_id
    from _metric_work
    union all by name
    select work.* exclude (attribution_id) replace (null::bigint as name_id), attribution.path_id
    from _metric_work as work
    join attribution using (source_id, attribution_id)
    union all by name
    select work.* exclude (attribution_id) replace (null::bigint as name_id), null::bigint as path_id
    from _metric_work as work
    join _metric_window as sample using (source_id, device_id, window_id)
    join _steady_time as steady using (source_id)
    where sample.start_ns >= steady.start_ns and sample.start_ns < steady.end_ns
),
work as (
    select
        source_id,
        device_id,
        window_id,
        name_id,
        path_id,
        sum(sampled_ns) as sampled_ns,
        any_value(work_ns) as work_ns,
        sum(count_ns) as count_ns,
        sum(busy_ns) as busy_ns,
        any_value(has_copies) as has_copies
    from piece
    group by source_id, device_id, window_id, name_id, path_id
),
-- in samples or not
ran as (
    select source_id, name_id, null::bigint as path_id, sum(end_ns - start_ns) as ran_ns
    from gpu_op
    where kind in ('kernel', 'graph')
    group by source_id, name_id
    union all
    select op.source_id, null, attribution.path_id, sum(op.end_ns - op.start_ns)
    from gpu_op as op
    join attribution using (source_id, attribution_id)
    where op.kind in ('kernel', 'graph')
    group by op.source_id, attribution.path_id
    union all
    select op.source_id, null, null, sum(least(op.end_ns, steady.end_ns) - greatest(op.start_ns, steady.start_ns))
    from gpu_op as op
    join _steady_time as steady
        on steady.source_id = op.source_id and op.end_ns > steady.start_ns and op.start_ns < steady.end_ns
    where op.kind in ('kernel', 'graph')
    group by op.source_id
),
used as (
    select
        work.source_id,
        work.name_id,
        work.path_id,
        sum(work.sampled_ns)::bigint as sampled_ns,
        coalesce(sum(work.sampled_ns) filter (work.sampled_ns = work.work_ns), 0) / sum(work.sampled_ns) as alone_frac,
        counted_frac(
            sum(sample.sm_active * work.count_ns),
            sum(work.busy_ns) filter (sample.sm_active is not null),
            sum(work.count_ns) filter (sample.sm_active is not null)
        ) as sm_active,
        counted_frac(
            sum(sample.sm_issue * work.count_ns),
            sum(work.busy_ns) filter (sample.sm_issue is not null),
            sum(work.count_ns) filter (sample.sm_issue is not null)
        ) as sm_issue,
        counted_frac(
            sum(sample.tensor_active * work.count_ns),
            sum(work.busy_ns) filter (sample.tensor_active is not null),
            sum(work.count_ns) filter (sample.tensor_active is not null)
        ) as tensor_active,
        counted_frac(
            sum(sample.dram_read * work.count_ns) filter (not work.has_copies),
            sum(work.busy_ns) filter (sample.dram_read is not null and not work.has_copies),
            sum(work.count_ns) filter (sample.dram_read is not null and not work.has_copies)
        ) as dram_read,
        counted_frac(
            sum(sample.dram_write * work.count_ns) filter (not work.has_copies),
            sum(work.busy_ns) filter (sample.dram_write is not null and not work.has_copies),
            sum(work.count_ns) filter (sample.dram_write is not null and not work.has_copies)
        ) as dram_write
    from work
    join _metric_window as sample using (source_id, device_id, window_id)
    group by work.source_id, work.name_id, work.path_id
),
judged as (
    select
        used.*,
        least(1, used.sampled_ns / ran.ran_ns) as sampled_frac,
        used.alone_frac >= 0.5 and sampled_frac >= 0.5 as is_telling,
        if(
            is_telling,
            limited_by(used.sm_active, used.sm_issue, used.tensor_active, used.dram_read + used.dram_write),
            null
        ) as own_limit
    from used
    join ran
        on ran.source_id = used.source_id
        and ran.name_id is not distinct from used.name_id
        and ran.path_id is not distinct from used.path_id
),
-- units for 64 bits have no counter, and on most devices there are few
kernel as (
    select
        judged.source_id,
        judged.name_id,
        if(
            judged.own_limit in ('latency', 'idle multiprocessors')
            and regexp_matches(name.text, '(?i)\bdouble\b|f64|fp64|(^|[^a-z])[dz]gem[mv]'),
            null, judged.own_limit
        ) as limited_by
    from judged
    join name on name.name_id = judged.name_id
),
-- of a range what is the limit of most of its kernels' time
of_path as (
    select source_id, path_id, limited_by
    from (
        select
            work.source_id,
            attribution.path_id,
            kernel.limited_by,
            sum(work.sampled_ns) as sampled_ns,
            sum(sum(work.sampled_ns)) over (partition by work.source_id, attribution.path_id) as all_ns
        from _metric_work as work
        join attribution using (source_id, attribution_id)
        join kernel on kernel.source_id = work.source_id and kernel.name_id = work.name_id
        group by work.source_id, attribution.path_id, kernel.limited_by
    )
    where limited_by is not null and sampled_ns >= 0.7 * all_ns
)
select judged.* exclude (own_limit), coalesce(kernel.limited_by, of_path.limited_by) as limited_by
from judged
left join kernel on kernel.source_id = judged.source_id and kernel.name_id = judged.name_id
left join of_path on of_path.source_id = judged.source_id and of_path.path_id = judged.path_id
