-- A row is a CUDA call whose stack was recorded, with the function that called it.
--
-- What is in CUDA's own libraries, or is named as the call, called nobody; nor did Python's interpreter where a function
-- outside of it has a name, and what begins a process or a thread says nothing. A function that calls itself, as the stub of a kernel, is there once.
--
-- columns:
--   source_id        integer     the input
--   thread_id        bigint      the calling thread
--   api_call_id      bigint      the call
--   caller           varchar     the function, without the types of its arguments; NULL where nsys found no symbol
--   module           varchar     file name of its library or program, NULL likewise
--   stack            varchar     the function and up to four that it was called by, the innermost first; NULL likewise

with
named as (
    select
        call.api_call_id,
        call.source_id,
        call.thread_id,
        frame.depth,
        without_arguments(function.text) as function,
        file_name(module.text) as module,
        coalesce(regexp_matches(file_name(module.text), '^(lib)?python[0-9.]*([._]|$)', 'i'), false) as is_interpreter,
        coalesce(
            regexp_matches(file_name(module.text), '^(lib(cuda|cudart|cupti|nvidia|nvToolsExt|ToolsInjection)|nvcuda|cudart)', 'i')
            or regexp_matches(function.text, concat('\b', api.text, '(_v[0-9]+|_ptsz|_ptds)*\b')),
            false
        ) as is_cuda
    from call_frame as frame
    join api_call as call
        on call.source_id = frame.source_id
        and call.thread_id = frame.thread_id
        and call.correlation_id = frame.correlation_id
    join name as api on api.name_id = call.name_id
    left join name as function on function.name_id = frame.name_id
    left join name as module on module.name_id = frame.module_id
    where not call.is_duplicate
),
-- of Python's interpreter only where there is nothing else
calling as (
    select *, lag(function) over (partition by api_call_id order by depth) as within
    from (
        select *, bool_and(is_interpreter) over (partition by api_call_id) as is_all_interpreter
        from named
        where function is not null and not is_cuda
            and function not in ('_start', '__libc_start_main', '__libc_start_call_main', 'start_thread', 'clone', 'clone3', '__clone')
    )
    where is_interpreter = is_all_interpreter
),
apart as (
    select *, row_number() over (partition by api_call_id order by depth) as place
    from calling
    where function is distinct from within
)
select
    named.source_id,
    any_value(named.thread_id) as thread_id,
    named.api_call_id,
    any_value(apart.function) filter (apart.place = 1) as caller,
    any_value(apart.module) filter (apart.place = 1) as module,
    string_agg(apart.function, ' < ' order by apart.place) filter (apart.place <= 5) as stack
from named
left join apart on apart.api_call_id = named.api_call_id and apart.depth = named.depth
group by named.source_id, named.api_call_id
