-- A row is one thread that opened a range or made a CUDA call.
--
-- globalTid packs hardware (8 bits), virtual machine (8), process (24) and thread (24); without the last 24 bits it is
-- the globalPid that rows of GPU work carry.
--
-- needs: reading, staged_api_call, staged_range, thread_name

select
    reading.source_id,
    used.thread_id,
    used.thread_id & ~16777215 as process_id,
    used.thread_id >> 24 & 16777215 as pid,
    used.thread_id & 16777215 as tid,
    thread_name.name
from (
    select thread_id from staged_range
    union
    select end_thread_id from staged_range where end_thread_id is not null
    union
    select thread_id from staged_api_call
) as used
cross join reading
left join thread_name on thread_name.thread_id = used.thread_id
