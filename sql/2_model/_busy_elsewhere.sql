-- A row is a stretch of time in which another device works than the one that the row is for, with work of a process of both.
--
-- columns:
--   source_id    integer   the input
--   process      bigint    the device that it is for (named as macro merged has it)
--   start_ns     bigint    begin
--   end_ns       bigint    end
--   place        integer   the device that works

with
shared as (
    select distinct own.source_id, own.device_id, other.device_id as other_id
    from _stream_work as own
    join _stream_work as other
        on other.source_id = own.source_id
        and other.process_id is not distinct from own.process_id
        and other.device_id <> own.device_id
)
select busy.source_id, shared.device_id as process, busy.start_ns, busy.end_ns, busy.device_id as place
from _device_activity as busy
join shared on shared.source_id = busy.source_id and shared.other_id = busy.device_id
where busy.activity = 'busy'
