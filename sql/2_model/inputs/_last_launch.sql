-- A row is a process and the last of its launches whose work is in the file.
--
-- columns:
--   source_id     integer   the input
--   process_id    bigint    the process, NULL if not recorded
--   start_ns      bigint    begin of the call

select source_id, process_id, max(last_launch_ns) as start_ns
from _stream_work
group by source_id, process_id
