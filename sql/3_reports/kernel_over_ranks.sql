-- A row is one kernel over all ranks of a job: how often it ran and how long.
--
-- The kernels of kernel_summary put together: counts and sums add up, the deviation is that of all executions. Median and
-- percentile come from counts of executions of about equal length (2 % apart), so they are right within 1 %. Inputs of one
-- kind are put together; those of nsys and of torch.profiler may be of the same steps and stand beside each other. A pass of a
-- rank that recorded memory beside another that did not does not count, nor does a copy or an input of another job.
--
-- columns:
--   kernel_name          varchar   the kernel
--   short_name           varchar   a name of at most 40 characters, see kernel_summary
--   rank_cnt             bigint    inputs that ran it
--   kernel_cnt           bigint    executions
--   kernel_ns            bigint    their summed duration
--   kernel_frac          double    kernel_ns as a fraction of all kernel time of the inputs of its kind
--   mean_ns              double    mean duration of an execution
--   median_ns            double    median, within 1 %
--   p99_ns               double    99th percentile, within 1 %
--   min_ns               bigint    shortest
--   max_ns               bigint    longest
--   stddev_ns            double    sample standard deviation, 0 for a single one
--   slowest_rank         integer   rank whose executions took longest on average, NULL if not recorded
--   slowest_mean_ns      double    mean duration there
--   kind                 varchar   kind of the inputs, see trace_info

with
apart as (
    from _memory_pass
    union all
    select source_id from _rank_problem where is_left_out
),
summed as (
    select
        source.kind,
        kernel.kernel_name,
        min(kernel.short_name) as short_name,
        count(*) as rank_cnt,
        sum(kernel.kernel_cnt)::bigint as kernel_cnt,
        sum(kernel.kernel_ns)::bigint as kernel_ns,
        min(kernel.min_ns) as min_ns,
        max(kernel.max_ns) as max_ns,
        sum((kernel.kernel_cnt - 1) * kernel.stddev_ns ** 2) as within,
        list((kernel.kernel_cnt, kernel.mean_ns)) as groups,
        arg_max(kernel.rank, kernel.mean_ns) as slowest_rank,
        max(kernel.mean_ns) as slowest_mean_ns
    from kernel_summary as kernel
    join source using (source_id)
    where source_id not in (from apart)
    group by source.kind, kernel.kernel_name
),
bin as (
    select source.kind, found.kernel_name, found.bin, sum(found.kernel_cnt) as kernel_cnt
    from _kernel_histogram as found
    join source using (source_id)
    where source_id not in (from apart)
    group by all
),
counted as (
    select
        *,
        sum(kernel_cnt) over (partition by kind, kernel_name order by bin) as until_cnt,
        sum(kernel_cnt) over (partition by kind, kernel_name) as all_cnt
    from bin
),
placed as (
    select
        kind,
        kernel_name,
        exp((min(bin) filter (until_cnt >= all_cnt * 0.5) + 0.5) / 50) as median_ns,
        exp((min(bin) filter (until_cnt >= all_cnt * 0.99) + 0.5) / 50) as p99_ns
    from counted
    group by kind, kernel_name
)
select
    summed.kernel_name,
    summed.short_name,
    summed.rank_cnt,
    summed.kernel_cnt,
    summed.kernel_ns,
    summed.kernel_ns / nullif(sum(summed.kernel_ns) over (partition by summed.kind), 0) as kernel_frac,
    summed.kernel_ns / summed.kernel_cnt as mean_ns,
    least(greatest(placed.median_ns, summed.min_ns), summed.max_ns) as median_ns,
    least(greatest(placed.p99_ns, summed.min_ns), summed.max_ns) as p99_ns,
    summed.min_ns,
    summed.max_ns,
    if(
        summed.kernel_cnt = 1, 0,
        sqrt((
            summed.within
            + list_sum([one[1] * (one[2] - summed.kernel_ns / summed.kernel_cnt) ** 2 for one in summed.groups])
        ) / (summed.kernel_cnt - 1))
    ) as stddev_ns,
    summed.slowest_rank,
    summed.slowest_mean_ns,
    summed.kind
from summed
join placed on placed.kind = summed.kind and placed.kernel_name = summed.kernel_name
order by summed.kind, summed.kernel_ns desc, summed.kernel_name
