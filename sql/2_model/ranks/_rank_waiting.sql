-- A row is a time in which one of several ranks does nothing but wait for others to come to a matched collective, for merged.
--
-- That is from its last compute on, until the last member has come (_rank_met). While it waits in several, as in two groups
-- or for two buckets at once, it waits in the first of them, and then in what is left of the next.
--
-- columns:
--   source_id   integer   the input
--   process     bigint    its device, -1 for CPUs
--   start_ns    bigint    begin
--   end_ns      bigint    when the last member comes
--   place       bigint    the matched collective

with
waiting as (
    select source_id, coalesce(device_id, -1) as process, end_ns - wait_ns as start_ns, last_ns as end_ns, match_id as place
    from _rank_met
    where last_ns > end_ns - wait_ns
),
following as (
    select
        * replace (
            greatest(start_ns, coalesce(max(end_ns) over (
                partition by source_id, process
                order by start_ns, end_ns, place rows between unbounded preceding and 1 preceding
            ), start_ns)) as start_ns
        )
    from waiting
)
from following
where end_ns > start_ns
