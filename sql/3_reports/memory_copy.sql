-- A row is one copy or memset on a GPU: what it moved, between which kinds of memory, how fast, who asked for it.
--
-- copy_kind is the direction. bandwidth_bytes is bytes a second over the operation's own duration, never rounded to whole
-- units. An asynchronous call that copies from or to pageable memory is not asynchronous: CUDA stages it through a buffer
-- while the CPU waits (is_pageable_async). A call without Async in its name blocks the CPU (is_blocking), except within
-- one device and from pageable memory of up to 64 KiB (as nsys analyze).
--
-- columns:
--   name                varchar   '[CUDA memcpy HtoD]', '[CUDA memset]' …
--   copy_kind           varchar   'HtoD', 'DtoH', 'DtoD', 'PtoP' …, NULL for a memset
--   src_kind            varchar   'Pageable', 'Pinned', 'Device', 'Managed' …, NULL if not recorded
--   dst_kind            varchar   the same of the target
--   bytes               bigint    bytes moved or set
--   start_ns            bigint    start on the device
--   gpu_op_ns           bigint    duration on the device
--   bandwidth_bytes     double    bytes a second, NULL for a duration of 0
--   api_name            varchar   the call, NULL if not recorded
--   launch_api_ns       bigint    duration of the call: time that the CPU spent in it
--   is_peer             boolean   true for a copy between devices
--   is_pageable_async   boolean   true for an asynchronous call on pageable memory
--   is_blocking         boolean   true for a call that returns when the copy is done
--   path                varchar   name path of the range that owns it, NULL without one
--   device_id           integer   device
--   stream_id           bigint    stream
--   gpu_op_id           bigint    key, see launch_trace
--   source_id           integer   the input, see trace_info
--   rank                integer   rank of the input, NULL if not recorded

with
copy as (
    select
        gpu_op.*,
        moved.bytes,
        moved.copy_kind,
        moved.src_kind,
        moved.dst_kind,
        api_name.text as api_name,
        regexp_matches(api_name.text, '(?i)async') as is_async,
        'Pageable' in (coalesce(moved.src_kind, ''), coalesce(moved.dst_kind, '')) as is_pageable
    from memory_operation as moved
    join gpu_op using (gpu_op_id)
    left join api_call using (api_call_id)
    left join name as api_name on api_name.name_id = api_call.name_id
)
select
    name.text as name,
    copy.copy_kind,
    copy.src_kind,
    copy.dst_kind,
    copy.bytes,
    copy.start_ns,
    copy.end_ns - copy.start_ns as gpu_op_ns,
    copy.bytes * 1e9 / nullif(copy.end_ns - copy.start_ns, 0) as bandwidth_bytes,
    copy.api_name,
    copy.launch_end_ns - copy.launch_start_ns as launch_api_ns,
    coalesce(copy.copy_kind = 'PtoP', false) as is_peer,
    coalesce(copy.kind = 'memcpy' and copy.is_async and copy.is_pageable, false) as is_pageable_async,
    coalesce(
        not copy.is_async
        and regexp_matches(copy.api_name, '(?i)memcpy|memset')
        and case copy.kind
            when 'memset' then copy.dst_kind in ('Pinned', 'Managed', 'Managed Static')
            else copy.copy_kind <> 'DtoD' and not (copy.copy_kind = 'HtoD' and copy.bytes <= 65536)
        end,
        false
    ) as is_blocking,
    range_path.path,
    copy.device_id,
    copy.stream_id,
    copy.gpu_op_id,
    copy.source_id,
    source.rank
from copy
join name on name.name_id = copy.name_id
join source on source.source_id = copy.source_id
left join range using (range_id)
left join range_path using (path_id)
order by copy.source_id, copy.start_ns, copy.gpu_op_id
