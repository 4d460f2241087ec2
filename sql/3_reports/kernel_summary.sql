-- A row is one kernel: how often it ran and how long.
--
-- Every kernel of the file counts, whether its launch is in the file or not; the summed kernel_ns is the kernel
-- time of the file. Executions of whole CUDA graphs are not kernels: launch_trace has them as kind 'graph'.
--
-- columns:
--   kernel_name   varchar   the kernel
--   short_name    varchar   a name of at most 40 characters that no other kernel of the input has: what it does, in which
--         type, with which tile
--   kernel_cnt    bigint    executions
--   kernel_ns     bigint    their summed duration
--   kernel_frac   double    kernel_ns as a fraction of all kernel time of the input
--   mean_ns       double    mean duration of an execution
--   median_ns     double    median, interpolated
--   min_ns        bigint    shortest
--   max_ns        bigint    longest
--   stddev_ns     double    sample standard deviation, 0 for a single one
--   source_id     integer   the input, see trace_info
--   rank          integer   rank of the input, NULL if not recorded

select
    name.text as kernel_name,
    any_value(short.short_name) as short_name,
    count(*) as kernel_cnt,
    sum(end_ns - start_ns)::bigint as kernel_ns,
    sum(end_ns - start_ns) / nullif(sum(sum(end_ns - start_ns)) over (partition by source_id), 0) as kernel_frac,
    avg(end_ns - start_ns) as mean_ns,
    median(end_ns - start_ns) as median_ns,
    min(end_ns - start_ns) as min_ns,
    max(end_ns - start_ns) as max_ns,
    sample_stddev(end_ns - start_ns) as stddev_ns,
    source_id,
    any_value(source.rank) as rank
from gpu_op
join name using (name_id)
join _short_name as short using (source_id, name_id)
join source using (source_id)
where gpu_op.kind = 'kernel'
group by source_id, name.text
order by source_id, kernel_ns desc, kernel_name
