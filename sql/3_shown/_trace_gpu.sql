-- A row is a GPU operation as a slice of a stream, for other viewers (--perfetto).
--
-- columns:
--   source_id     integer   the input
--   device_id     integer   the device, -1 without
--   stream_id     bigint    the stream, -1 without
--   start_ns      bigint    begin
--   end_ns        bigint    end
--   kind          varchar   as in gpu_op
--   name_id       bigint    its name
--   path_id       bigint    the path of the range that owns it, -1 without
--   api_call_id   bigint    the call of which it is the first work, else -1

select
    op.source_id,
    coalesce(op.device_id, -1) as device_id,
    coalesce(op.stream_id, -1) as stream_id,
    op.start_ns,
    op.end_ns,
    op.kind::varchar as kind,
    op.name_id,
    coalesce(own.path_id, -1) as path_id,
    coalesce(if(op.is_first_op, op.api_call_id, null), -1) as api_call_id
from gpu_op as op
left join _owner as own using (attribution_id)
