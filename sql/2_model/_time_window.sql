-- A row is an input's GPU window, which is cut into equal bins for series; the threshold time_bin_cnt says how many.

select
    gpu_op.source_id,
    min(gpu_op.start_ns) as first_ns,
    max(gpu_op.end_ns) - min(gpu_op.start_ns) as span_ns,
    any_value(setting.bin_cnt) as bin_cnt
from gpu_op
cross join (
    select greatest(1, value)::bigint as bin_cnt
    from threshold
    where name = 'time_bin_cnt'
) as setting
group by gpu_op.source_id
