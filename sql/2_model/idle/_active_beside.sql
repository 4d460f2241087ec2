-- A row is a thread with another one in its process that calls the operating system, and not only to poll.
--
-- CUDA's own threads poll in every program. A thread that calls the operating system alone is no thread of `thread`; nsys, which
-- alone records these calls, has a thread's process in its number but for the last 24 bits.
--
-- columns:
--   source_id   integer   the input
--   thread_id   bigint    the thread

with
active as (
    select distinct os_call.source_id, os_call.thread_id
    from os_call
    semi join (select name_id from name where os_kind_of(text) <> 'polls') as named using (name_id)
)
select distinct thread.source_id, thread.thread_id
from thread
join active
    on active.source_id = thread.source_id
    and active.thread_id & ~16777215 = thread.thread_id & ~16777215
    and active.thread_id <> thread.thread_id
