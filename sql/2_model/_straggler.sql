-- A row is one step of one rank beside the others, as straggler has it, without the place that its CPU was in.
--
--   arrives at    rank 0 ...|wwwwwwwwwwwww|        w: waits. While two are missing each is blamed for half of that,
--                 rank 1 ..........|......|w|      then rank 2 alone for what ranks 0 and 1 wait.
--                 rank 2 .................|.|
--
-- is_by_arrival says how the step's stragglers were found; their collective_ids are those to which the rank came later than
-- half of the others, in the group that waited longest for it, NULL for others.

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
met as materialized (
    select
        skew.source_id,
        skew.step,
        skew.match_id,
        skew.collective_id,
        coalesce(skew.group_name, '') as "group",
        collective.work_start_ns,
        stretch.start_ns as way_start_ns,
        skew.late_ns,
        skew.wait_ns,
        skew.skew_ns,
        coalesce(skew.error_ns, 9223372036854775807) as error_ns
    from collective_skew as skew
    join collective using (collective_id)
    join _rank_stretch as stretch using (collective_id)
    where skew.operation not in ('send', 'recv')
),
-- what a rank waited for others of another group on its way is not its own
waited as (
    select met.collective_id, sum(other.wait_ns) as waited_ns
    from met
    join met as other
        on other.source_id = met.source_id
        and other.step is not distinct from met.step
        and other."group" <> met."group"
        and other.work_start_ns >= met.way_start_ns
        and other.work_start_ns < met.work_start_ns
    group by met.collective_id
),
own_late as (
    select
        met.*,
        coalesce(late_ns, 0) - coalesce(waited_ns, 0) as own_late_ns,
        work_start_ns - way_start_ns - coalesce(waited_ns, 0) as own_way_ns,
        sum(wait_ns) over (partition by match_id) as all_waited_ns
    from met
    left join waited using (collective_id)
    where skew_ns is not null
),
ordered as (
    select
        *,
        row_number() over by_arrival as place,
        count(*) over (partition by match_id) as member_cnt,
        own_late_ns - quantile_disc(own_late_ns, 0.5) over (partition by match_id) as came_behind_ns,
        -- who did not take longer since the collective before was late already: before the recording began
        least(
            came_behind_ns, own_way_ns - quantile_disc(own_way_ns, 0.5) over (partition by match_id)
        ) as behind_ns,
        own_late_ns - coalesce(lag(own_late_ns) over by_arrival, own_late_ns) as later_ns
    from own_late
    window by_arrival as (partition by match_id order by own_late_ns, source_id desc)
),
-- each moment of waiting is shared equally by those that are not there yet
shared as (
    select
        *,
        sum((place - 1) * later_ns / (member_cnt - place + 1)) over (
            partition by match_id order by place rows unbounded preceding
        ) as share_ns
    from ordered
),
blamed as materialized (
    select
        *,
        all_waited_ns * share_ns / sum(share_ns) over (partition by match_id) * behind_ns / came_behind_ns as kept_waiting_ns
    from shared
    qualify behind_ns > 0
),
-- what is not known is no more than what is
certain as (
    select source.kind, met.step
    from met
    join source using (source_id)
    group by source.kind, met.step
    having max(met.late_ns) >= coalesce(max(met.error_ns) filter (met.skew_ns is null), 0)
),
by_group as (
    select
        source_id,
        step,
        "group",
        sum(behind_ns) as late_ns,
        sum(kept_waiting_ns) as kept_waiting_ns,
        list(collective_id order by collective_id) as collective_ids
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
        arrived.late_ns,
        arrived.kept_waiting_ns as arrived_waiting_ns,
        arrived.collective_ids,
        certain.kind is not null as is_by_arrival,
        count(*) over same_step as rank_cnt,
        row_number() over by_own as place,
        own_ns - quantile_disc(own_ns, 0.5) over same_step as lag_ns,
        own_ns - coalesce(lag(own_ns) over by_own, own_ns) as more_ns
    from own
    left join arrived on arrived.source_id = own.source_id and arrived.step is not distinct from own.step
    left join certain on certain.kind = own.kind and certain.step is not distinct from own.step
    window
        same_step as (partition by own.kind, own.step),
        by_own as (partition by own.kind, own.step order by own_ns, own.source_id desc)
),
placed as (
    select
        *,
        if(
            is_by_arrival,
            coalesce(arrived_waiting_ns, 0),
            sum((place - 1) * more_ns / (rank_cnt - place + 1)) over (
                partition by kind, step order by place rows unbounded preceding
            ) * (lag_ns > 0)::int
        ) as kept_waiting_ns,
        if(is_by_arrival, coalesce(late_ns, 0), lag_ns) as behind_ns
    from compared
),
judged as (
    select
        *,
        is_stage and not is_by_arrival as is_by_work,
        behind_ns > wall_ns * (select value from threshold where name = 'straggler_frac')
        and 2 * kept_waiting_ns >= max(kept_waiting_ns) over (partition by kind, step) as is_straggler
    from placed
),
-- on the way to the collectives to which it came last, or in the whole step
excess as (
    select loss.source_id, loss.step, true as is_by_arrival, loss.part, sum(loss.excess_ns) as excess_ns
    from _rank_loss as loss
    join blamed on blamed.match_id = loss.match_id and blamed.source_id = loss.source_id
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
)
select
    judged.step,
    judged.rank,
    judged.wall_ns::bigint as wall_ns,
    judged.compute_ns::bigint as compute_ns,
    judged.exposed_communication_ns::bigint as exposed_communication_ns,
    judged.own_ns::bigint as own_ns,
    judged.lag_ns::bigint as lag_ns,
    judged.late_ns::bigint as late_ns,
    judged.kept_waiting_ns::bigint as kept_waiting_ns,
    judged.is_straggler,
    judged.is_by_arrival,
    if(judged.is_straggler, judged.collective_ids, null) as collective_ids,
    case when judged.is_straggler then if(is_by_work, 'compute', cause.part) end as cause,
    case when judged.is_straggler then if(is_by_work, judged.lag_ns, cause.excess_ns) end::bigint as cause_ns,
    if(judged.host is null, null, median(judged.lag_ns) over (partition by judged.kind, judged.step, judged.host))::bigint
        as host_lag_ns,
    if(stage.stage is null, null, median(judged.lag_ns) over (partition by judged.kind, judged.step, stage.stage))::bigint
        as stage_lag_ns,
    judged.rank_cnt,
    judged.source_id
from judged
left join cause
    on cause.source_id = judged.source_id
    and cause.step is not distinct from judged.step
    and cause.is_by_arrival = judged.is_by_arrival
left join _stage as stage on stage.source_id = judged.source_id
where judged.rank_cnt > 1
