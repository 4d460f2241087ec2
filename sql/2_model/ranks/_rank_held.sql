-- A row is a time in which a rank is kept from its way to a collective by others, for the macro merged: it does nothing but wait
-- for them (_rank_waiting), or its next collective, of another group, queues behind one for whose last member it waits.
--
--     rank 3   reduce-scatter |wwwwwwwww|==||all-reduce        w: until rank 2 comes; rank 3 computes meanwhile, and its
--     rank 2                            |==||all-reduce        all-reduce with others could have begun before
--
-- columns:
--   source_id   integer   the input
--   process     bigint    its device, -1 for CPUs
--   start_ns    bigint    begin
--   end_ns      bigint    when the last member comes
--   place       bigint    the matched collective

with met as (
    select source_id, coalesce(device_id, -1) as process, "group", start_ns, end_ns, last_ns, match_id
    from _rank_met
)
from _rank_waiting
union all
select met.source_id, met.process, met.start_ns, met.last_ns, met.match_id
from met
asof join met as next
    on next.source_id = met.source_id and next.process = met.process and next.start_ns >= met.end_ns - 1000
where next."group" <> met."group" and next.start_ns < met.end_ns + 10_000 and met.last_ns > met.start_ns
