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

select source_id, device_id, stream_id, start_ns, end_ns, name_id, path_id
from _trace_gpu
