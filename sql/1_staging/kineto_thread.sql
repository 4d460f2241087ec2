-- A row is one CPU thread that has ranges or calls, not seen in an earlier piece of the trace.
--
-- needs: batch, kineto_thread, reading

select
    reading.source_id,
    (select count(*) from kineto_thread) + row_number() over (order by used.pid, used.tid) as thread_id,
    used.pid,
    used.tid
from (
    select distinct pid, tid
    from batch
    where becomes in ('range', 'api_call')
) as used
cross join reading
where not exists (
    from kineto_thread as known
    where known.pid is not distinct from used.pid and known.tid is not distinct from used.tid
)
