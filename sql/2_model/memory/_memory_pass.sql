-- A row is an input of a rank that recorded memory, where another input of the rank did not: a second pass over the same steps.
--
-- `lorabench collect --profiler torch,memory` makes both. The pass without is compared with the other ranks, as recording memory
-- takes time.
--
-- columns:
--   source_id   integer   the input

with
recorded as (
    select source_id, kind, rank, source_id in (
        select source_id from source_fact where section = 'holds' and item = 'events i cpu_instant_event'
    ) as has_memory
    from source
    where rank is not null and kind is not null
)
select source_id
from recorded
where has_memory and exists (
    from recorded as other
    where not other.has_memory and other.kind = recorded.kind and other.rank = recorded.rank
)
