-- A row is one function of the operating system's libraries (nsys --trace=osrt): how often it was called, and how long the calls took.
--
-- Most of that is waiting, on all threads at once: the main thread for a batch, the workers of a loader for a queue, threads
-- of libraries for work. main_ns is of the threads that launch GPU work or hold the steps: what those wait for is time of the
-- program.
--
-- columns:
--   os_name     varchar   the function
--   call_cnt    bigint    calls
--   call_ns     bigint    their summed duration
--   call_frac   double    call_ns as a fraction of all such calls of the input
--   main_ns     bigint    how much of it is on threads that launch GPU work or hold the steps
--   mean_ns     double    mean duration of a call
--   median_ns   double    median, interpolated
--   min_ns      bigint    shortest
--   max_ns      bigint    longest
--   stddev_ns   double    sample standard deviation, 0 for a single one
--   source_id   integer   the input, see trace_info
--   rank        integer   rank of the input, NULL if not recorded

with
main as (
    select source_id, thread_id from _step where thread_id is not null
    union
    select source_id, thread_id from api_call where api_call_id in (select api_call_id from gpu_op)
)
select
    name.text as os_name,
    count(*) as call_cnt,
    sum(call.end_ns - call.start_ns)::bigint as call_ns,
    sum(call.end_ns - call.start_ns) / nullif(sum(sum(call.end_ns - call.start_ns)) over (partition by call.source_id), 0)
        as call_frac,
    coalesce(sum(call.end_ns - call.start_ns) filter (main.thread_id is not null), 0)::bigint as main_ns,
    avg(call.end_ns - call.start_ns) as mean_ns,
    median(call.end_ns - call.start_ns) as median_ns,
    min(call.end_ns - call.start_ns) as min_ns,
    max(call.end_ns - call.start_ns) as max_ns,
    sample_stddev(call.end_ns - call.start_ns) as stddev_ns,
    call.source_id,
    any_value(source.rank) as rank
from os_call as call
join name using (name_id)
join source on source.source_id = call.source_id
left join main on main.source_id = call.source_id and main.thread_id = call.thread_id
group by call.source_id, name.text
order by call.source_id, call_ns desc, os_name
