-- A row is a stretch of time in which another device works than the one that the row is for, with work of a process of both.
--
-- columns:
--   source_id    integer   the input
--   process      bigint    the device that it is for (named as macro merged has it)
--   start_ns     bigint    begin
--   end_ns       bigint    end
--   place        integer   the device that works

select busy.source_id, beside.device_id as process, busy.start_ns, busy.end_ns, busy.device_id as place
from _device_activity as busy
join _device_beside as beside on beside.source_id = busy.source_id and beside.other_id = busy.device_id
where busy.activity = 'busy'
