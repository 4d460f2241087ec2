-- A row is a matched collective of one of several ranks, and how long at its end the rank did nothing but wait for it.
--
-- Sends and receives are left out. wait_ns goes from the last compute of the device before the end of the collective, or from
-- its start, to its end; 0 where something computes then. Compute that begins in its last twentieth, at most 20 us, does not
-- count.
--
-- On CPUs who waits goes on before the execution is noted to be over, by as much as the machine is busy. There a collective ends
-- where compute begins again after a wait at least twice as long as what is left of it:
--
--     compute   ----|                  |--- --- |---         the same, where the thread of gloo was not run in time
--     gloo         |wwwwwwwwwwwwwwwwwww|.......|             w: wait_ns, until end_ns; .: not looked at
--
-- columns:
--   source_id       integer   the input
--   collective_id   bigint    the row of collective
--   place           varchar   the range that its communication belongs to, as in _exposed_place, NULL where it waits for nothing
--   step            bigint    number of the step, NULL outside of steps
--   start_ns        bigint    begin of its work
--   end_ns          bigint    end of its work, on CPUs when the rank went on
--   wait_ns         bigint    until its end nothing computes for so long
--   busy_ns         bigint    while it runs something computes for so long in all
--   ready_ns        bigint    when what was launched before its call has been computed, or its call; NULL where that is not known

with
noted as (
    select
        collective.source_id,
        collective.collective_id,
        collective.device_id,
        coalesce(collective.device_id, -1) as device,
        matched.step,
        collective.work_start_ns as start_ns,
        collective.work_end_ns as end_ns,
        collective.start_ns as call_ns
    from collective
    join matched_collective as matched using (collective_id)
    semi join _several_ranks using (source_id)
    where matched.match_id is not null
        and collective.work_start_ns is not null
        and collective.operation not in ('send', 'recv')
),
compute as (
    select
        source_id,
        coalesce(device_id, -1) as device,
        start_ns,
        end_ns,
        sum(end_ns - start_ns) over (
            partition by source_id, device_id order by start_ns rows unbounded preceding
        ) as until_ns,
        lag(end_ns) over (partition by source_id, device_id order by start_ns) as before_ns
    from _rank_activity
    where activity = 'compute' and source_id in (select source_id from noted)
),
resumed as (
    select
        noted.collective_id,
        arg_max(next.start_ns, next.start_ns - greatest(noted.start_ns, coalesce(next.before_ns, noted.start_ns))) as end_ns
    from noted
    join compute as next
        on next.source_id = noted.source_id
        and next.device = noted.device
        and next.start_ns < noted.end_ns
        and next.start_ns >= noted.end_ns - (noted.end_ns - noted.start_ns) // 3
    where noted.device_id is null
        and next.start_ns - greatest(noted.start_ns, coalesce(next.before_ns, noted.start_ns))
        >= 2 * (noted.end_ns - next.start_ns)
    group by noted.collective_id
),
met as (
    select
        noted.* replace (coalesce(resumed.end_ns, noted.end_ns) as end_ns),
        if(
            noted.device_id is null,
            coalesce(resumed.end_ns, noted.end_ns),
            noted.end_ns - least((noted.end_ns - noted.start_ns) // 20, 20_000)
        ) as near_end_ns
    from noted
    left join resumed using (collective_id)
),
-- how long something has computed before each begins, and before each ends
edge as (
    select source_id, collective_id, device, unnest([start_ns, end_ns]) as time_ns, unnest([-1, 1]) as sign
    from met
),
busy as (
    select edge.collective_id, sum(edge.sign * (compute.until_ns - greatest(0, compute.end_ns - edge.time_ns))) as busy_ns
    from edge
    asof join compute
        on compute.source_id = edge.source_id and compute.device = edge.device and compute.start_ns <= edge.time_ns
    group by edge.collective_id
),
-- a collective waits for what was launched before it
launched as (
    select
        source_id,
        device_id,
        launch_start_ns,
        max(end_ns) over (partition by source_id, device_id order by launch_start_ns rows unbounded preceding) as done_ns
    from _classed_op
    where launch_start_ns is not null and class <> 'communication' and source_id in (select source_id from met)
),
-- stretches of communication, with the range of what they begin with
placed as (
    select
        stretch.source_id,
        stretch.device_id,
        op.start_ns,
        coalesce(range_path.path, if(op.api_call_id is null, '(launch not recorded)', null)) as place
    from _exposed as stretch
    join gpu_op as op using (gpu_op_id)
    left join _owner as own on own.attribution_id = op.attribution_id
    left join range_path on range_path.path_id = own.path_id
    where stretch.activity = 'communication' and stretch.source_id in (select source_id from met)
)
select
    met.source_id,
    met.collective_id,
    if(met.end_ns - met.start_ns > coalesce(busy.busy_ns, 0), placed.place, null) as place,
    met.step,
    met.start_ns,
    met.end_ns,
    greatest(0, met.end_ns - greatest(met.start_ns, coalesce(compute.end_ns, met.start_ns)))::bigint as wait_ns,
    coalesce(busy.busy_ns, 0)::bigint as busy_ns,
    greatest(met.call_ns, launched.done_ns) as ready_ns
from met
left join busy using (collective_id)
asof left join compute
    on compute.source_id = met.source_id and compute.device = met.device and compute.start_ns < met.near_end_ns
asof left join launched
    on launched.source_id = met.source_id and launched.device_id = met.device_id and launched.launch_start_ns <= met.call_ns
asof left join placed
    on placed.source_id = met.source_id and placed.device_id = met.device_id and placed.start_ns <= met.start_ns
