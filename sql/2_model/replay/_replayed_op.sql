-- A row is an operation on a GPU as the replay takes it.
--
-- columns:
--   source_id         integer   the input
--   gpu_op_id         bigint    the operation
--   start_ns          bigint    begin
--   end_ns            bigint    end
--   launch_start_ns   bigint    begin of the call that launched it, NULL without
--   process_id        bigint    the process, 0 without
--   device_id         integer   the device
--   context_id        bigint    the context, 0 without
--   stream_id         bigint    the stream, 0 without
--   api_call_id       bigint    the call that launched it, -1 without
--   name_id           bigint    its name
--   is_kernel         boolean   whether it is a kernel
--   is_page           boolean   whether unified memory moved a page, which no call asked for

select
    source_id,
    gpu_op_id,
    start_ns,
    end_ns,
    launch_start_ns,
    coalesce(process_id, 0) as process_id,
    device_id,
    coalesce(context_id, 0) as context_id,
    coalesce(stream_id, 0) as stream_id,
    coalesce(api_call_id, -1) as api_call_id,
    name_id,
    kind = 'kernel' as is_kernel,
    api_call_id is null
    and name_id in (select name_id from name where moves_pages(text)) as is_page
from gpu_op
