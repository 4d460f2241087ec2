-- A row is a device and another one with work of the same process.
--
-- columns:
--   source_id   integer   the input
--   device_id   integer   the device
--   other_id    integer   the other one

select distinct own.source_id, own.device_id, other.device_id as other_id
from _stream_work as own
join _stream_work as other
    on other.source_id = own.source_id
    and other.process_id is not distinct from own.process_id
    and other.device_id <> own.device_id
