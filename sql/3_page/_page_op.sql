-- A row is one GPU operation of an input as the timeline draws it: its stream, its times, and numbers of its name and owner.
--
-- columns:
--   source_id    integer    the input
--   device_id    integer    the device
--   stream_id    bigint     the stream
--   start_ns     bigint     begin, on the file's clock
--   end_ns       bigint     end
--   name_id      bigint     key of the name, see _page_name
--   path_id      bigint     the path of the range that owns it, -1 without

select
    op.source_id,
    coalesce(op.device_id, -1) as device_id,
    coalesce(op.stream_id, -1) as stream_id,
    op.start_ns,
    op.end_ns,
    op.name_id,
    coalesce(owner.path_id, -1) as path_id
from gpu_op as op
left join range as owner using (range_id)
