-- A row is one CUDA call and one stack that it was called from (nsys profile --cudabacktrace): how often, and how long the calls took.
--
-- nsys records stacks of the calls that it was asked for, and of those only that take long (80 us unless told otherwise): api_summary
-- has all calls. Functions are named where nsys found symbols; what is in CUDA itself and in Python's interpreter is left out.
--
-- columns:
--   api_name    varchar   the call
--   caller      varchar   the function that called it, NULL where nsys found no symbol
--   call_cnt    bigint    calls
--   call_ns     bigint    their summed duration
--   wait_ns     bigint    how long the CPU waited in them for the GPU, as in sync_summary
--   mean_ns     double    mean duration of a call
--   max_ns      bigint    longest
--   module      varchar   file name of the library or program that the caller is in, NULL if not recorded
--   stack       varchar   the caller and up to four functions that it was called by, the innermost first
--   source_id   integer   the input, see trace_info
--   rank        integer   rank of the input, NULL if not recorded

with
waited as (
    select api_call_id, sum(end_ns - start_ns) as wait_ns
    from _sync_call
    group by api_call_id
)
select
    name.text as api_name,
    called.caller,
    count(*) as call_cnt,
    sum(call.end_ns - call.start_ns)::bigint as call_ns,
    coalesce(sum(waited.wait_ns), 0)::bigint as wait_ns,
    avg(call.end_ns - call.start_ns) as mean_ns,
    max(call.end_ns - call.start_ns) as max_ns,
    called.module,
    called.stack,
    called.source_id,
    any_value(source.rank) as rank
from _call_stack as called
join api_call as call using (api_call_id)
join name using (name_id)
join source on source.source_id = called.source_id
left join waited on waited.api_call_id = called.api_call_id
group by called.source_id, name.text, called.caller, called.module, called.stack
order by called.source_id, call_ns desc, api_name, caller, stack
