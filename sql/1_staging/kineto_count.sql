-- A row is how many events of a phase and category a piece of a trace holds, and how many of them are unusable.
--
-- Entries without a phase are no events. Memory events are counted where they are read.
--
-- needs: batch

select
    phase,
    category,
    becomes,
    count(*) as event_cnt,
    count(*) filter (becomes is not null and not is_measured(start_ns, end_ns)) as unusable_cnt
from batch
group by phase, category, becomes
