-- A row is one of the 100 kernels with the most time of an input, with what a person asks who chooses it.
--
-- columns:
--   source_id     integer    the input
--   name_id       bigint     key of the name
--   short_name    varchar    the short name
--   full_name     varchar    the name in the file, its first 400 characters
--   kernel_cnt    bigint     executions
--   kernel_ns     bigint     their summed duration
--   kernel_frac   double     of all kernel time of the input
--   mean_ns       double     mean duration
--   median_ns     double     median
--   min_ns        bigint     the shortest
--   max_ns        bigint     the longest

select
    kernel.source_id,
    name.name_id,
    kernel.short_name,
    left(kernel.kernel_name, 400) as full_name,
    kernel.kernel_cnt,
    kernel.kernel_ns,
    kernel.kernel_frac,
    kernel.mean_ns,
    kernel.median_ns,
    kernel.min_ns,
    kernel.max_ns
from kernel_summary as kernel
join name on name.text = kernel.kernel_name
qualify row_number() over (partition by kernel.source_id order by kernel.kernel_ns desc, name.name_id) <= 100
order by kernel.source_id, kernel.kernel_ns desc, name.name_id
