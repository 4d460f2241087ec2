-- A row is one cause of a device's idle time.
--
-- The causes are those of idle_gap; their idle_ns add up to the device's idle_ns in gpu_timeline_summary. A device that
-- waits for the CPU because the CPU had waited for it is not short of launches: behind_wait_ns tells these gaps apart.
--
-- columns:
--   device_id   integer   the device
--   cause       varchar   'host', 'dependency' or 'kernel_wait'
--   gap_cnt     bigint    number of gaps
--   idle_ns     bigint    their summed length
--   behind_wait_ns bigint    how much of it lies in gaps in which the CPU returned from waiting for the GPU
--   idle_frac   double    idle_ns as a fraction of the device's idle time
--   mean_ns     double    mean length
--   median_ns   double    median, interpolated
--   max_ns      bigint    longest
--   source_id   integer   the input, see trace_info
--   rank        integer   rank of the input, NULL if not recorded

select
    device_id,
    cause,
    count(*) as gap_cnt,
    sum(idle_ns)::bigint as idle_ns,
    coalesce(sum(idle_ns) filter (waited_kind is not null), 0)::bigint as behind_wait_ns,
    sum(idle_ns) / nullif(sum(sum(idle_ns)) over (partition by gap.source_id, device_id), 0) as idle_frac,
    avg(idle_ns) as mean_ns,
    median(idle_ns) as median_ns,
    max(idle_ns) as max_ns,
    gap.source_id,
    any_value(source.rank) as rank
from _blamed_gap as gap
join source using (source_id)
group by gap.source_id, device_id, gap.cause
order by gap.source_id, device_id, idle_ns desc, gap.cause
