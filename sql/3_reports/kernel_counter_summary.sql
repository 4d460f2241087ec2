-- A row is a hardware counter, a kernel and the range that launched it: what CUPTI's range profiler counted for them.
--
-- torch.profiler records such with profiler_metrics of its experimental configuration. Each kernel runs again and again for
-- it: such a file has no times of kernels. The innermost range counts; ranges around it have it in their path.
--
-- columns:
--   counter       varchar   the counter, as CUPTI calls it: 'smsp__sass_thread_inst_executed_op_ffma_pred_on.sum' …
--   path          varchar   the innermost range around the launch; NULL outside all ranges, and where launches and kernels are
--         not as many
--   kernel_cnt    bigint    kernels
--   value_sum     double    what it counted of them in all, NULL for averages, largest and smallest values, ratios and percentages
--   value_mean    double    mean of a kernel
--   value_min     double    smallest
--   value_max     double    largest
--   kernel_name   varchar   the kernel, NULL where CUPTI had no name
--   source_id     integer   the input, see trace_info
--   rank          integer   rank of the input, NULL if not recorded
--   path_id       bigint    the range's path, see range_path

select
    counter.text as counter,
    any_value(range_path.path) as path,
    count(*) as kernel_cnt,
    if(
        regexp_matches(counter.text, '[._](avg|min|max|ratio|pct)\b'), null, sum(one.value order by one.profiled_id)
    ) as value_sum,
    sum(one.value order by one.profiled_id) / count(*) as value_mean,
    min(one.value) as value_min,
    max(one.value) as value_max,
    kernel.text as kernel_name,
    one.source_id,
    any_value(source.rank) as rank,
    range.path_id
from kernel_counter as one
join source using (source_id)
join name as counter on counter.name_id = one.counter_id
left join name as kernel on kernel.name_id = one.name_id
left join range using (range_id)
left join range_path on range_path.path_id = range.path_id
group by one.source_id, counter.text, range.path_id, kernel.text
order by one.source_id, counter, value_sum desc nulls last, value_mean desc, path nulls last, kernel_name nulls last
