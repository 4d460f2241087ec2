-- A row is one kernel within one name path, by the rule that found it.
--
-- As range_summary, each kernel counts once per path; a kernel below a path counts for all paths above it. Exact
-- statistics over all rows.
--
-- columns:
--   path              varchar   names from the outermost range down, joined by '/'
--   name              varchar   the last name of the path
--   kernel_name       varchar   the kernel
--   rule              varchar   'direct', 'sequence' or 'window'
--   kernel_cnt        bigint    executions
--   kernel_ns         bigint    their summed duration
--   self_kernel_cnt   bigint    executions that the path owns
--   self_kernel_ns    bigint    their summed duration
--   mean_ns           double    mean duration of an execution
--   median_ns         double    median, interpolated
--   min_ns            bigint    shortest
--   max_ns            bigint    longest
--   stddev_ns         double    sample standard deviation, 0 for a single one
--   path_id           bigint    key of the path
--   source_id         integer   the input, see trace_info
--   rank              integer   rank of the input, NULL if not recorded

with
work as (
    select
        attribution.path_id,
        gpu_op.name_id,
        attribution.rule,
        count(*) as kernel_cnt,
        sum(end_ns - start_ns) as kernel_ns,
        count(*) filter (is_self) as self_kernel_cnt,
        coalesce(sum(end_ns - start_ns) filter (is_self), 0) as self_kernel_ns,
        avg(end_ns - start_ns) as mean_ns,
        median(end_ns - start_ns) as median_ns,
        min(end_ns - start_ns) as min_ns,
        max(end_ns - start_ns) as max_ns,
        sample_stddev(end_ns - start_ns) as stddev_ns
    from gpu_op
    join attribution using (attribution_id)
    where gpu_op.kind = 'kernel'
    group by attribution.path_id, gpu_op.name_id, attribution.rule
)
select
    range_path.path,
    name.text as name,
    kernel_name.text as kernel_name,
    work.rule,
    work.kernel_cnt,
    work.kernel_ns::bigint as kernel_ns,
    work.self_kernel_cnt,
    work.self_kernel_ns::bigint as self_kernel_ns,
    work.mean_ns,
    work.median_ns,
    work.min_ns,
    work.max_ns,
    work.stddev_ns,
    work.path_id,
    range_path.source_id,
    source.rank
from work
join range_path using (path_id)
join name on name.name_id = range_path.name_id
join name as kernel_name on kernel_name.name_id = work.name_id
join source on source.source_id = range_path.source_id
order by range_path.source_id, path, kernel_ns desc, kernel_name, rule
