-- A row is one device in one time bin: how much of the bin it was busy, and with what.
--
-- The window of an input's GPU work is cut into as many equal bins as the threshold time_bin_cnt says. Times are lengths
-- of unions; over all bins they add up to those of gpu_timeline_summary. (nsys: gpu_time_util.)
--
-- columns:
--   device_id          integer   the device
--   bin                bigint    number of the bin, from 0
--   start_ns           bigint    its start
--   end_ns             bigint    its end
--   busy_ns            bigint    time with any work
--   compute_ns         bigint    time with kernels that do not communicate, or graphs
--   communication_ns   bigint    time with communication kernels
--   memory_ns          bigint    time with copies or memsets
--   busy_frac          double    busy_ns / length of the bin
--   source_id          integer   the input, see trace_info
--   rank               integer   rank of the input, NULL if not recorded

select
    part.device_id,
    part.bin,
    part.start_ns,
    part.end_ns,
    coalesce(sum(part.length_ns) filter (part.series = 'busy'), 0)::bigint as busy_ns,
    coalesce(sum(part.length_ns) filter (part.series = 'compute'), 0)::bigint as compute_ns,
    coalesce(sum(part.length_ns) filter (part.series = 'communication'), 0)::bigint as communication_ns,
    coalesce(sum(part.length_ns) filter (part.series = 'memory'), 0)::bigint as memory_ns,
    coalesce(sum(part.length_ns) filter (part.series = 'busy'), 0) / nullif(part.end_ns - part.start_ns, 0) as busy_frac,
    part.source_id,
    source.rank
from time_in_bins('_activity_edge') as part
join source on source.source_id = part.source_id
group by part.source_id, part.device_id, part.bin, part.start_ns, part.end_ns, source.rank
order by part.source_id, part.device_id, part.bin
