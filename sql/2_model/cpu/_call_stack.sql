-- A row is a CUDA call whose stack was recorded, with the function that called it.
--
-- What is in CUDA's own libraries, or is named as the call, called nobody; nor did Python's interpreter where a function
-- outside of it has a name, and what begins a process or a thread says nothing. A function that calls itself, as the stub of a
-- kernel, is there once.
--
-- columns:
--   source_id        integer     the input
--   api_call_id      bigint      the call
--   caller           varchar     the function, without the types of its arguments; NULL where nsys found no symbol
--   module           varchar     file name of its library or program, NULL likewise
--   stack            varchar     the function and up to four that it was called by, the innermost first; NULL likewise

with
frame as (
    select call.api_call_id, call.source_id, call.name_id as api_id, frame.depth, frame.name_id, frame.module_id
    from call_frame as frame
    join api_call as call
        on call.source_id = frame.source_id
        and call.thread_id = frame.thread_id
        and call.correlation_id = frame.correlation_id
    where not call.is_duplicate
),
-- what names say is found by names, of which there are few
function as (
    select
        used.name_id,
        used.module_id,
        without_arguments(name.text) as function,
        min(used.name_id) over (partition by without_arguments(name.text)) as function_id,
        file_name(module.text) as module,
        coalesce(regexp_matches(file_name(module.text), '^(lib)?python[0-9.]*([._]|$)', 'i'), false) as is_interpreter
    from (select distinct name_id, module_id from call_frame) as used
    join name using (name_id)
    left join name as module on module.name_id = used.module_id
    where without_arguments(name.text)
        not in ('_start', '__libc_start_main', '__libc_start_call_main', 'start_thread', 'clone', 'clone3', '__clone')
        and not coalesce(
            regexp_matches(
                file_name(module.text), '^(lib(cuda|cudart|cupti|nvidia|nvToolsExt|ToolsInjection)|nvcuda|cudart)', 'i'
            ),
            false
        )
),
called as (
    select used.api_id, used.name_id
    from (select distinct api_id, name_id from frame) as used
    join name as api on api.name_id = used.api_id
    join name as function on function.name_id = used.name_id
    where regexp_matches(function.text, concat('\b', api.text, '(_v[0-9]+|_ptsz|_ptds)*\b'))
),
-- of Python's interpreter only where there is nothing else
calling as (
    select
        *,
        lag(function_id) over (partition by api_call_id order by depth) as within
    from (
        select
            frame.api_call_id, frame.depth, frame.name_id, frame.module_id, function.function_id, function.is_interpreter,
            bool_and(function.is_interpreter) over (partition by frame.api_call_id) as is_all_interpreter
        from frame
        join function on function.name_id = frame.name_id and function.module_id is not distinct from frame.module_id
        anti join called on called.api_id = frame.api_id and called.name_id = frame.name_id
    )
    where is_interpreter = is_all_interpreter
),
apart as (
    select *, row_number() over (partition by api_call_id order by depth) as place
    from calling
    where function_id is distinct from within
),
stacked as (
    select
        api_call_id,
        arg_min((name_id, module_id), place) as first_ids,
        list(function_id order by place) as function_ids
    from apart
    where place <= 5
    group by api_call_id
),
said as (
    select function_ids, string_agg(function.function, ' < ' order by place) as stack
    from (
        select distinct function_ids, unnest(function_ids) as function_id, generate_subscripts(function_ids, 1) as place
        from stacked
    )
    join (select distinct function_id, function from function) as function using (function_id)
    group by function_ids
)
select
    own.source_id,
    own.api_call_id,
    function.function as caller,
    function.module,
    said.stack
from (select distinct source_id, api_call_id from frame) as own
left join stacked using (api_call_id)
left join said on said.function_ids = stacked.function_ids
left join function
    on function.name_id = stacked.first_ids[1]
    and function.module_id is not distinct from stacked.first_ids[2]
