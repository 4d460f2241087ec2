-- A row is one call that copies or sets memory and lasts until that is done.
--
-- From or to pageable memory the asynchronous calls do, too. It also waits for most of a copy to the device through
-- staging buffers (from pageable memory, more than 64 KiB), which ends a little later. Clocks of CPU and GPU are some
-- microseconds apart (ROCm's are): a call that is fifty times as long as what its copy ends later waits for it.
--
-- columns:
--   api_call_id     bigint     the call
--   source_id       integer    the input
--   thread_id       bigint     its thread
--   name_id         bigint     its name
--   start_ns        bigint     begin of the wait
--   end_ns          bigint     its end
--   kind            varchar    'memcpy' or 'memset'
--   is_pageable     boolean    whether it copies from or to pageable memory

select
    call.api_call_id,
    call.source_id,
    call.thread_id,
    call.name_id,
    call.start_ns,
    max(least(gpu_op.end_ns, gpu_op.launch_end_ns)) as end_ns,
    any_value(gpu_op.kind)::varchar as kind,
    bool_or('Pageable' in (coalesce(moved.src_kind, ''), coalesce(moved.dst_kind, ''))) as is_pageable
from memory_operation as moved
join gpu_op using (gpu_op_id)
join api_call as call using (api_call_id)
join waiting_name as api on api.name_id = call.name_id
where api.is_move
    -- the CPU fills staging buffers for most of such a copy, and returns while the last of them are under way
    and gpu_op.end_ns - gpu_op.launch_end_ns <= case
        when moved.copy_kind = 'HtoD' and moved.src_kind = 'Pageable' and moved.bytes > 65536
            then (gpu_op.end_ns - gpu_op.start_ns) // 2
        else least((gpu_op.launch_end_ns - gpu_op.launch_start_ns) // 50, 10000)
    end
    and not (api.is_async and coalesce(moved.copy_kind in ('DtoD', 'PtoP'), false))
    and not call.is_duplicate
group by call.api_call_id, call.source_id, call.thread_id, call.name_id, call.start_ns
having max(least(gpu_op.end_ns, gpu_op.launch_end_ns)) > call.start_ns
