-- A row is one step of one rank: how long it kept the others waiting, or waited for them.
--
-- Ranks that train together meet in collectives, so their steps last equally long; the one that comes last waits least
-- in them. own_ns is the step without the time in which nothing but communication ran, so it is what the rank took for
-- itself, idle time included. The straggler of a step is the rank with the largest own_ns, when that exceeds the
-- median by more than the threshold straggler_frac of the step. Steps are matched by their numbers, several of one number
-- added up; inputs without steps count as one step each. Only inputs of one kind that say their rank (or have it in their name) are compared.
--
-- columns:
--   step                       bigint    number of the step, NULL for an input without steps
--   rank                       integer   rank of the input
--   wall_ns                    bigint    duration of the step on the CPU; without steps the window of the GPU work
--   compute_ns                 bigint    time with compute on a device, devices added up
--   exposed_communication_ns   bigint    time with communication and without compute
--   own_ns                     bigint    wall_ns - exposed_communication_ns
--   lag_ns                     bigint    own_ns - the median of the ranks
--   kept_waiting_ns            bigint    summed time that the other ranks had less of their own; 0 for all but the slowest
--   is_straggler               boolean   true for the slowest where it is late enough
--   rank_cnt                   bigint    ranks that have the step
--   source_id                  integer   the input, see trace_info

with
own as (
    select
        activity.source_id,
        source.rank,
        source.kind,
        activity.step,
        sum(activity.end_ns - activity.start_ns) as wall_ns,
        sum(coalesce(activity.compute_ns, 0)) as compute_ns,
        sum(coalesce(activity.active_ns, 0) - coalesce(activity.compute_ns, 0)) as exposed_communication_ns
    from _rank_step as activity
    join source using (source_id)
    where source.rank is not null
    group by all
),
compared as (
    select
        *,
        wall_ns - exposed_communication_ns as own_ns,
        count(*) over same_step as rank_cnt,
        median(wall_ns - exposed_communication_ns) over same_step as median_ns,
        max(wall_ns - exposed_communication_ns) over same_step as slowest_ns,
        sum(wall_ns - exposed_communication_ns) over same_step as sum_ns,
        row_number() over (partition by kind, step order by wall_ns - exposed_communication_ns desc, rank, source_id) as place
    from own
    window same_step as (partition by kind, step)
)
select
    step,
    rank,
    wall_ns::bigint as wall_ns,
    compute_ns::bigint as compute_ns,
    exposed_communication_ns::bigint as exposed_communication_ns,
    own_ns::bigint as own_ns,
    (own_ns - median_ns)::bigint as lag_ns,
    if(place = 1, slowest_ns * rank_cnt - sum_ns, 0)::bigint as kept_waiting_ns,
    place = 1
    and own_ns - median_ns > wall_ns * (select value from threshold where name = 'straggler_frac') as is_straggler,
    rank_cnt,
    source_id
from compared
where rank_cnt > 1
order by step, rank, source_id
