-- A row is a time in which one of several ranks does nothing but wait for others to come to a matched collective, for merged.
--
-- A collective takes as long as for the member that comes last; how much longer that of another member is, it waits, but for
-- what computes meanwhile (_rank_wait). No clocks are compared.
--
-- columns:
--   source_id   integer   the input
--   process     bigint    its device, -1 for CPUs
--   start_ns    bigint    begin
--   end_ns      bigint    when the last member comes
--   place       bigint    the matched collective

with
met as (
    select
        wait.source_id,
        coalesce(collective.device_id, -1) as process,
        wait.end_ns - wait.wait_ns as start_ns,
        wait.end_ns - min(wait.end_ns - wait.start_ns) over (partition by matched.match_id) as end_ns,
        matched.match_id as place
    from _rank_wait as wait
    join matched_collective as matched using (collective_id)
    join collective using (collective_id)
)
select source_id, process, start_ns, end_ns, place
from met
where end_ns > start_ns
