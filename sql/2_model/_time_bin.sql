-- A row is one of the equal bins into which an input's GPU window is cut for series; the threshold time_bin_cnt says how many.

with
extent as (
    select source_id, min(start_ns) as first_ns, max(end_ns) as last_ns
    from gpu_op
    group by source_id
),
setting as (
    select greatest(1, value)::bigint as bin_cnt
    from threshold
    where name = 'time_bin_cnt'
)
select
    extent.source_id,
    bin,
    (extent.first_ns + (extent.last_ns - extent.first_ns)::hugeint * bin // setting.bin_cnt)::bigint as start_ns,
    (extent.first_ns + (extent.last_ns - extent.first_ns)::hugeint * (bin + 1) // setting.bin_cnt)::bigint as end_ns
from extent
cross join setting
cross join range(setting.bin_cnt) as bins(bin)
