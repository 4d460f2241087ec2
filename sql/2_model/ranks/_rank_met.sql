-- A row is a matched collective of one of several ranks, and when its last member came.
--
-- A collective takes as long as for the member that comes last; how much longer that of another member is, it waits. No clocks
-- are compared, but on CPUs: there a member may take longer because its thread was not run, and the last member has come when
-- the clocks allow it (collective_skew), where these are known.
--
-- columns:
--   source_id       integer   the input
--   collective_id   bigint    the row of collective
--   match_id        bigint    its match
--   device_id       integer   its device, NULL on CPUs
--   group           varchar   name of its group, empty where nothing says
--   place           varchar   the rest as in _rank_wait
--   start_ns        bigint    begin of its work
--   end_ns          bigint    end of its work
--   wait_ns         bigint    until its end nothing computes for so long
--   busy_ns         bigint    while it runs something computes for so long in all
--   last_ns         bigint    when the last member came

with
-- on a CPU: how long until the last member came
arrived as (
    select
        arrival.collective_id,
        greatest(clock.last_ns, coalesce(clock.others_last_from_ns - clock.error_ns, clock.last_ns)) - arrival.arrival_ns as least_ns,
        greatest(clock.last_ns, coalesce(clock.others_last_to_ns + clock.error_ns, clock.last_ns)) - arrival.arrival_ns as most_ns
    from _arrival as arrival
    join _met_clock as clock on clock.match_id = arrival.match_id and clock.clock_id = arrival.clock_id
    where arrival.collective_id in (select collective_id from collective where device_id is null)
),
met as (
    select
        wait.source_id,
        wait.collective_id,
        matched.match_id,
        collective.device_id,
        coalesce(collective.group_name, '') as "group",
        wait.place,
        wait.start_ns,
        wait.end_ns,
        wait.wait_ns,
        wait.busy_ns,
        wait.end_ns - min(wait.end_ns - wait.start_ns) over (partition by matched.match_id) as last_ns
    from _rank_wait as wait
    join matched_collective as matched using (collective_id)
    join collective using (collective_id)
    where matched.match_id is not null
)
select met.* replace (
    least(met.end_ns, greatest(least(met.last_ns, met.start_ns + arrived.most_ns), met.start_ns + arrived.least_ns)) as last_ns
)
from met
left join arrived using (collective_id)
