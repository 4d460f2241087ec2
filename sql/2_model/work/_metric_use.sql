-- A row is a kernel, a name path or an input: how it used the devices by their counters, see kernel_metric_summary.
--
-- columns:
--   source_id       integer   the input
--   name_id         bigint    the kernel's name, NULL for others
--   path_id         bigint    the name path, NULL for others; an input has neither, and is its steady state
--   sampled_ns      bigint    time of its kernels and graphs in which the counters were sampled
--   alone_frac      double    part of sampled_ns in samples in which nothing else ran
--   sm_active       double    part of the multiprocessors' time with work on them; NULL, as below, without such a counter
--   sm_issue        double    part of their cycles in which they issue an instruction
--   tensor_active   double    part of their cycles in which their tensor cores are at work
--   dram_read       double    part of the memory's bandwidth that reads take
--   dram_write      double    part of the memory's bandwidth that writes take
--   limit           varchar   see kernel_metric_summary

with
piece as (
    select source_id, device_id, window_id, name_id, null::bigint as path_id, sampled_ns, work_ns, count_ns, busy_ns
    from _metric_work
    union all
    select source_id, device_id, window_id, null, attribution.path_id, sampled_ns, work_ns, count_ns, busy_ns
    from _metric_work
    join attribution using (source_id, attribution_id)
    union all
    select source_id, device_id, window_id, null, null, sampled_ns, work_ns, count_ns, busy_ns
    from _metric_work
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
        sum(busy_ns) as busy_ns
    from piece
    group by source_id, device_id, window_id, name_id, path_id
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
            sum(sample.dram_read * work.count_ns),
            sum(work.busy_ns) filter (sample.dram_read is not null),
            sum(work.count_ns) filter (sample.dram_read is not null)
        ) as dram_read,
        counted_frac(
            sum(sample.dram_write * work.count_ns),
            sum(work.busy_ns) filter (sample.dram_write is not null),
            sum(work.count_ns) filter (sample.dram_write is not null)
        ) as dram_write
    from work
    join _metric_window as sample using (source_id, device_id, window_id)
    group by work.source_id, work.name_id, work.path_id
)
select
    *,
    if(alone_frac >= 0.5, limited_by(sm_active, sm_issue, tensor_active, dram_read + dram_write), null) as limit
from used
