-- A row is a range of one of several ranks in whose exposed communication the rank waits for others that come later.
--
-- A collective is as long as it takes for the member that comes last; how much longer that of another member is, it waits, but
-- for what computes meanwhile. Of that all counts as if it were before the last member comes, or what is behind the last
-- compute: whichever leaves more to wait.
--
--     this rank    |wwwwwwwwwwwwwwwwwww|===|     w: waits for the last member, =: what the collective takes
--     computes        cc      c                  5 of 19 w at most are no waiting
--     last member                      |===|
--
-- What lies in the time that the answer is about counts, moments of several collectives once. No clocks are compared.
--
-- columns:
--   source_id   integer   the input
--   device_id   integer   the device, NULL on CPUs
--   place       varchar   the range, as in _exposed_place
--   waited_ns   bigint    how long nothing computes and the rank waits

with
met as (
    select *, least(end_ns - wait_ns, start_ns + busy_ns) as alone_ns
    from _rank_met
),
waiting as (
    select
        met.source_id,
        met.device_id,
        met.place,
        greatest(met.alone_ns, steady.start_ns) as start_ns,
        least(met.last_ns, steady.end_ns) as end_ns
    from met
    join _steady_time as steady using (source_id)
    where met.last_ns > met.alone_ns and met.last_ns > steady.start_ns and met.alone_ns < steady.end_ns
),
follows as (
    select
        *,
        max(end_ns) over (
            partition by source_id, device_id
            order by start_ns, end_ns rows between unbounded preceding and 1 preceding
        ) as before_ns
    from waiting
)
select
    source_id,
    device_id,
    place,
    sum(greatest(0, end_ns - greatest(start_ns, coalesce(before_ns, start_ns))))::bigint as waited_ns
from follows
group by source_id, device_id, place
