-- A row is one CUDA call in which the CPU waits for the GPU, with the innermost range around it.
--
-- The range is the last of the thread that began before the call, or the nearest one around that which ends after it.

with recursive
blocking_copy as (
    select gpu_op.api_call_id
    from memory_copy
    join gpu_op using (gpu_op_id)
    where memory_copy.is_blocking
),
call as (
    select
        api_call.api_call_id,
        api_call.source_id,
        api_call.thread_id,
        api_call.start_ns,
        api_call.end_ns,
        name.text as api_name,
        case
            when regexp_matches(name.text, '(Device|Ctx|Context)Synchronize') then 'device'
            when regexp_matches(name.text, 'StreamSynchronize') then 'stream'
            when regexp_matches(name.text, 'EventSynchronize') then 'event'
            when regexp_matches(name.text, '(?i)memcpy') then 'memcpy'
            else 'memset'
        end as kind
    from api_call
    join name using (name_id)
    where not api_call.is_duplicate
        and (
            regexp_matches(name.text, '^(cu|cuda|hip)(Device|Ctx|Context|Stream|Event)Synchronize')
            or (
                regexp_matches(name.text, '^(cu|cuda|hip)(Memcpy|Memset)')
                and not regexp_matches(name.text, '(?i)async')
                and api_call.api_call_id in (select api_call_id from blocking_copy)
            )
        )
),
begun as (
    select source_id, thread_id, start_ns, arg_max(range_id, (depth, range_id)) as range_id
    from range
    where kind <> 'python'
    group by source_id, thread_id, start_ns
),
climb as (
    select call.api_call_id, call.end_ns as call_end_ns, begun.range_id
    from call
    asof join begun
        on begun.source_id = call.source_id
        and begun.thread_id = call.thread_id
        and begun.start_ns <= call.start_ns
    union all
    select climb.api_call_id, climb.call_end_ns, range.parent_id
    from climb
    join range using (range_id)
    where range.end_ns < climb.call_end_ns and range.parent_id is not null
),
found as (
    select climb.api_call_id, climb.range_id
    from climb
    join range using (range_id)
    where range.end_ns >= climb.call_end_ns
)
select call.*, found.range_id
from call
left join found using (api_call_id)
