-- A row is one CUDA or HIP function: how often it was called and how long the calls took on the CPU.
--
-- The second copies of calls that nsys --cudabacktrace writes are left out; the version suffix of a function
-- (_v3020) is cut.
--
-- columns:
--   api_name    varchar   the function
--   call_cnt    bigint    calls
--   call_ns     bigint    their summed duration
--   call_frac   double    call_ns as a fraction of all calls of the input
--   mean_ns     double    mean duration of a call
--   median_ns   double    median, interpolated
--   min_ns      bigint    shortest
--   max_ns      bigint    longest
--   stddev_ns   double    sample standard deviation, 0 for a single one
--   source_id   integer   the input, see trace_info
--   rank        integer   rank of the input, NULL if not recorded

select
    name.text as api_name,
    count(*) as call_cnt,
    sum(end_ns - start_ns)::bigint as call_ns,
    sum(end_ns - start_ns) / nullif(sum(sum(end_ns - start_ns)) over (partition by source_id), 0) as call_frac,
    avg(end_ns - start_ns) as mean_ns,
    median(end_ns - start_ns) as median_ns,
    min(end_ns - start_ns) as min_ns,
    max(end_ns - start_ns) as max_ns,
    sample_stddev(end_ns - start_ns) as stddev_ns,
    source_id,
    any_value(source.rank) as rank
from api_call
join name using (name_id)
join source using (source_id)
where not is_duplicate
group by source_id, name.text
order by source_id, call_ns desc, api_name
