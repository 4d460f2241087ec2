-- A row is a sample of a running thread, from COMPOSITE_EVENTS.
--
-- needs: batch

select id as sample_id, globalTid as thread_id, start as start_ns
from batch
where id is not null and globalTid is not null and is_measured(start, start)
