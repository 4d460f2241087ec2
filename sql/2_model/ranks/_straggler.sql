-- A row is one step of one rank beside the others, as straggler has it, without the place that its CPU was in.
--
--   arrives at    rank 0 ...|wwwwwwwwwwwww|        w: waits. While two are missing each is blamed for half of that,
--                 rank 1 ..........|......|w|      then rank 2 alone for what ranks 0 and 1 wait.
--                 rank 2 .................|.|
--
-- columns:
--   step                       bigint     number of the step, NULL for an input without steps
--   rank                       integer    rank of the input
--   wall_ns                    bigint     duration of the step as _rank_stretch has it, without steps from the start of the first
--         work to the end of the last
--   compute_ns                 bigint     time with compute on a device, devices added up
--   exposed_communication_ns   bigint     time with communication and without compute
--   own_ns                     bigint     wall_ns - exposed_communication_ns, of a stage of a pipeline compute_ns
--   lag_ns                     bigint     own_ns - the median of the ranks
--   late_ns                    bigint     lateness at the collectives in which others waited for it, 0 where it was not, NULL
--         where that is not known
--   kept_waiting_ns            bigint     its part of the summed time in which others did nothing but wait (not by arrival: had
--         less of their own), NULL where that is not known
--   is_straggler               boolean    whether it is late enough, and others waited for it long enough
--   is_by_arrival              boolean    how the step's stragglers were found: by when ranks arrive, else by their own time
--   collective_ids             bigint[]   of a straggler found by arrival the collectives on the way to which it fell further
--         behind half of the others, in the group that waited longest for it, NULL for others
--   cause                      varchar    what a straggler spent more on than the others, NULL for others and where nothing says
--   cause_ns                   bigint     how much more, NULL likewise
--   host_lag_ns                bigint     median lag_ns of the ranks of its machine, NULL if not recorded
--   stage_lag_ns               bigint     median lag_ns of the ranks of its stage, NULL without a pipeline
--   rank_cnt                   bigint     ranks that have the step
--   source_id                  integer    the input

with
part as materialized (
    from _rank_part where collective_id is null
),
spent as (
    select
        source_id,
        ranked.rank,
        ranked.kind,
        ranked.host,
        part.step,
        sum(part.end_ns - part.start_ns) filter (part.part = 'busy') as wall_ns,
        coalesce(sum(part_ns) filter (part.part = 'compute'), 0) as compute_ns,
        coalesce(sum(part_ns) filter (part.part = 'compute or communication'), 0) - compute_ns as exposed_communication_ns
    from part
    join _counted_rank as ranked using (source_id)
    group by all
),
-- a stage of a pipeline idles by its place, so that of stages their work alone can be compared
own as (
    select
        spent.*,
        stage.source_id is not null as is_stage,
        if(is_stage, compute_ns, wall_ns - exposed_communication_ns) as own_ns
    from spent
    left join _stage as stage on stage.source_id = spent.source_id and stage.stage_cnt > 1
),
-- of ranks that have not met yet clocks say who came late, where they are known; and on CPUs, where a rank that has met the
-- others may go on much later, as its thread was not run
met as (
    select
        way.*,
        if(
            collective.device_id is null and (skew.skew_ns is not null or skew.error_ns = 0),
            skew.arrival_ns,
            way.end_ns - way.since_ns
        ) - way.waited_ns as own_way_ns,
        if(way.has_met, null, coalesce(skew.late_ns, 0) - way.waited_ns) as own_late_ns,
        coalesce(waited.ns, 0) as exposed_ns
    from _rank_way as way
    join collective_skew as skew using (collective_id)
    join collective using (collective_id)
    left join (
        select source_id, place as match_id, sum(end_ns - start_ns) as ns from _rank_waiting group by all
    ) as waited on waited.source_id = way.source_id and waited.match_id = way.match_id
    where way.has_met or skew.skew_ns is not null
),
ordered as (
    select
        *,
        row_number() over by_arrival as place,
        count(*) over (partition by match_id) as member_cnt,
        sum(exposed_ns) over (partition by match_id) as all_waited_ns,
        own_way_ns - quantile_disc(own_way_ns, 0.5) over (partition by match_id) as came_behind_ns,
        -- who did not come later was late already: before the recording began
        least(
            came_behind_ns,
            coalesce(own_late_ns - quantile_disc(own_late_ns, 0.5) over (partition by match_id), came_behind_ns)
        ) as behind_ns,
        own_way_ns - coalesce(lag(own_way_ns) over by_arrival, own_way_ns) as later_ns
    from met
    window by_arrival as (partition by match_id order by own_way_ns, source_id desc)
),
-- each moment of waiting is shared equally by those that are not there yet
shared as (
    select
        *,
        sum((place - 1) * later_ns / (member_cnt - place + 1)) over (
            partition by match_id order by place rows unbounded preceding
        ) as share_ns,
        -- since the ranks met it is as late as it was, or later
        greatest(behind_ns, 0) - greatest(coalesce(max(behind_ns) over (
            partition by source_id, "group", since_ns order by end_ns, collective_id
            rows between unbounded preceding and 1 preceding
        ), 0), 0) as newly_ns
    from ordered
),
blamed as materialized (
    select
        * replace (greatest(newly_ns, 0) as newly_ns),
        -- what is waited beyond that is for what kept a member waiting elsewhere, as the others of its tensor-parallel group
        share_ns * least(all_waited_ns / sum(share_ns) over (partition by match_id), 1)
        * behind_ns / came_behind_ns as kept_waiting_ns
    from shared
    qualify behind_ns > 0
),
-- before all ranks of a group have met, of some of them nothing may be known
seen as (
    select way.source_id, way.step, if(bool_and(way.has_met or skew.skew_ns is not null), 0, null) as ns
    from _rank_way as way
    join collective_skew as skew using (collective_id)
    group by way.source_id, way.step
    having bool_or(way.has_met or skew.skew_ns is not null)
),
certain as (
    select distinct source.kind, seen.step
    from seen
    join source using (source_id)
),
-- ranks that meet in some steps wait for nobody in those before, as while gradients are accumulated
meeting as (
    select source.kind, matched.step, certain.kind is not null as is_certain
    from matched_collective as matched
    join collective using (collective_id)
    join source using (source_id)
    left join certain on certain.kind = source.kind and certain.step = matched.step
    where matched.step is not null
    group by source.kind, matched.step, certain.kind
),
following as (
    select own.kind, own.step, meeting.step as meeting_step, meeting.is_certain
    from (select distinct kind, step from own where kind in (select kind from meeting)) as own
    asof left join meeting on meeting.kind = own.kind and meeting.step >= own.step
),
by_group as (
    select
        source_id,
        step,
        "group",
        sum(newly_ns) as late_ns,
        sum(kept_waiting_ns) as kept_waiting_ns,
        list(collective_id order by collective_id) filter (newly_ns > 0) as collective_ids
    from blamed
    group by source_id, step, "group"
),
-- who is late for one group is late for the next one, too: that in which others waited longest counts
arrived as (
    select
        source_id,
        step,
        arg_max("group", kept_waiting_ns) as "group",
        arg_max(late_ns, kept_waiting_ns) as late_ns,
        sum(kept_waiting_ns) as kept_waiting_ns,
        arg_max(collective_ids, kept_waiting_ns) as collective_ids
    from by_group
    group by source_id, step
),
compared as (
    select
        own.*,
        own.wall_ns * least_late.frac as least_late_ns,
        coalesce(arrived.late_ns, 0) <= least_late_ns as is_little,
        -- a little in one group where nothing is known of another is not all
        if(seen.ns is null and is_little, null, coalesce(arrived.late_ns, seen.ns)) as late_ns,
        if(seen.ns is null and is_little, null, coalesce(arrived.kept_waiting_ns, seen.ns)) as arrived_waiting_ns,
        arrived.collective_ids,
        certain.kind is not null as is_by_arrival,
        following.kind is not null
        and coalesce(following.meeting_step > own.step and following.is_certain, following.meeting_step is null) as is_apart,
        count(*) over same_step as rank_cnt,
        row_number() over by_own as place,
        own_ns - quantile_disc(own_ns, 0.5) over same_step as lag_ns,
        own_ns - coalesce(lag(own_ns) over by_own, own_ns) as more_ns
    from own
    cross join (select value as frac from threshold where name = 'straggler_frac') as least_late
    left join arrived on arrived.source_id = own.source_id and arrived.step is not distinct from own.step
    left join seen on seen.source_id = own.source_id and seen.step is not distinct from own.step
    left join following on following.kind = own.kind and following.step = own.step
    left join certain on certain.kind = own.kind and certain.step is not distinct from own.step
    window
        same_step as (partition by own.kind, own.step),
        by_own as (partition by own.kind, own.step order by own_ns, own.source_id desc)
),
placed as (
    select
        *,
        case
            when is_by_arrival then arrived_waiting_ns
            when is_apart then 0
            else sum((place - 1) * more_ns / (rank_cnt - place + 1)) over (
                partition by kind, step order by place rows unbounded preceding
            ) * (lag_ns > 0)::int
        end as kept_waiting_ns,
        if(is_by_arrival, late_ns, lag_ns) as behind_ns
    from compared
),
judged as (
    select
        *,
        is_stage and not is_by_arrival as is_by_work,
        -- what others wait while they compute costs nothing
        coalesce(
            least(behind_ns, kept_waiting_ns) > least_late_ns
            and 2 * kept_waiting_ns >= max(kept_waiting_ns) over (partition by kind, step),
            false
        ) as is_straggler
    from placed
),
-- on the way to the collectives to which it came last, or in the whole step
excess as (
    select loss.source_id, loss.step, true as is_by_arrival, loss.part, sum(loss.excess_ns) as excess_ns
    from _rank_loss as loss
    join blamed
        on blamed.match_id = loss.match_id and blamed.source_id = loss.source_id and blamed.newly_ns > 0
    join arrived
        on arrived.source_id = blamed.source_id
        and arrived.step is not distinct from blamed.step
        and arrived."group" = blamed."group"
    group by loss.source_id, loss.step, loss.part
    union all
    select source_id, step, false, part, sum(excess_ns)
    from _rank_loss
    where match_id is null
    group by source_id, step, part
),
cause as (
    select source_id, step, is_by_arrival, arg_max(part, excess_ns) as part, max(excess_ns) as excess_ns
    from excess
    where excess_ns > 0
    group by source_id, step, is_by_arrival
),
unmatched as (
    select collective.source_id, matched.step, sum(work_end_ns - work_start_ns) as ns
    from collective
    join matched_collective as matched using (collective_id)
    where matched.match_id is null
    group by collective.source_id, matched.step
),
caused as (
    select
        judged.*,
        cause.part,
        cause.excess_ns,
        coalesce(cause.part = 'exposed communication', false) as is_by_links,
        judged.is_straggler and coalesce(2 * unmatched.ns >= cause.excess_ns, false) as is_unmatched
    from judged
    left join cause
        on cause.source_id = judged.source_id
        and cause.step is not distinct from judged.step
        and cause.is_by_arrival = judged.is_by_arrival
    left join unmatched on unmatched.source_id = judged.source_id and unmatched.step is not distinct from judged.step
),
-- what a stage receives late is another one's, and so may be what a rank waits for where nobody knows with whom
told as (
    select
        * replace (
            is_straggler and not (is_by_links and (is_stage or is_unmatched)) as is_straggler,
            if(is_by_links and is_unmatched, null, late_ns) as late_ns,
            if(is_by_links and is_unmatched, null, kept_waiting_ns) as kept_waiting_ns
        )
    from caused
)
select
    told.step,
    told.rank,
    told.wall_ns::bigint as wall_ns,
    told.compute_ns::bigint as compute_ns,
    told.exposed_communication_ns::bigint as exposed_communication_ns,
    told.own_ns::bigint as own_ns,
    told.lag_ns::bigint as lag_ns,
    told.late_ns::bigint as late_ns,
    told.kept_waiting_ns::bigint as kept_waiting_ns,
    told.is_straggler,
    told.is_by_arrival,
    if(told.is_straggler, told.collective_ids, null) as collective_ids,
    case when told.is_straggler then if(is_by_work, 'compute', told.part) end as cause,
    case when told.is_straggler then if(is_by_work, told.lag_ns, told.excess_ns) end::bigint as cause_ns,
    if(told.host is null, null, median(told.lag_ns) over (partition by told.kind, told.step, told.host))::bigint
        as host_lag_ns,
    if(stage.stage is null, null, median(told.lag_ns) over (partition by told.kind, told.step, stage.stage))::bigint
        as stage_lag_ns,
    told.rank_cnt,
    told.source_id
from told
left join _stage as stage on stage.source_id = told.source_id
where told.rank_cnt > 1
