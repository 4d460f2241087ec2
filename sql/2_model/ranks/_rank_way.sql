-- A row is the way of a rank to a matched collective since the ranks of its group met, and how long others kept it on it.
--
-- Ranks meet where a collective keeps more than half of them, and its last member, from computing until it ends (_rank_wait), or
-- where at least half wait for that one and then go on, whatever it has left to compute beside it. Who waits for the next one of the
-- group when it ends does not go on: of all-reduces beside the backward they meet in the last one alone, and until they meet they
-- are as late as they were.
--
--     rank 0   meet|---a---|b1.......|b2...meet|---     b1, b2: all-reduces beside the backward, .: until the other one comes
--     rank 1   meet|-------a-------|b1|-b-|b2--|---     a, b: the stretches to them (_rank_stretch); both ways begin at meet
--
-- columns:
--   source_id       integer   the input
--   collective_id   bigint    the collective
--   match_id        bigint    its match
--   step            bigint    number of the step
--   group           varchar   name of its group, empty where nothing says
--   since_ns        bigint    when the ranks met; where they have not yet, the start of the first step
--   has_met         boolean   whether they have
--   end_ns          bigint    when the rank came to the collective
--   waited_ns       bigint    how long others kept it since since_ns (_rank_held)
--   stretch_ns      bigint    the part of that since it came to the collective before

with
-- whether a rank waits until the last member comes, and has begun to compute again before it waits for the next one of the group
followed as (
    select
        wait.collective_id,
        wait.wait_ns > min(wait.end_ns - wait.start_ns) over (partition by matched.match_id)
        and coalesce(lead(wait.end_ns - wait.wait_ns) over (
            partition by wait.source_id, collective.process_id, collective.group_name, collective.group_ranks
            order by wait.start_ns, wait.collective_id
        ) > wait.end_ns + 10_000, true) as waits_and_goes_on
    from _rank_wait as wait
    join collective using (collective_id)
    join matched_collective as matched using (collective_id)
),
met as (
    select
        collective.collective_id,
        collective.source_id,
        collective.process_id,
        collective.group_name,
        collective.group_ranks,
        coalesce(collective.device_id, -1) as process,
        collective.work_start_ns,
        collective.work_end_ns,
        matched.match_id,
        2 * count(*) filter (wait.wait_ns > 0) over members > count(*) over members
        and arg_min(wait.wait_ns, wait.end_ns - wait.start_ns) over members > 0
        or 2 * count(*) filter (followed.waits_and_goes_on) over members >= count(*) over members as is_meeting
    from matched_collective as matched
    join collective using (collective_id)
    join _rank_wait as wait using (collective_id)
    join followed using (collective_id)
    where matched.match_id is not null
    window members as (partition by matched.match_id)
),
-- those that were over: two buckets on CPUs run beside each other
meeting as (
    select
        source_id,
        coalesce(process_id, -1) as process_id,
        coalesce(group_name, '') as "group",
        coalesce(group_ranks, '') as group_ranks,
        work_end_ns as met_ns
    from met
    where is_meeting
),
way as (
    select
        stretch.source_id,
        stretch.collective_id,
        met.match_id,
        met.process,
        stretch.step,
        coalesce(met.group_name, '') as "group",
        stretch.start_ns,
        stretch.end_ns,
        first.start_ns as first_ns,
        meeting.met_ns
    from _rank_stretch as stretch
    join met using (collective_id)
    left join (
        select source_id, min(start_ns) as start_ns from _rank_stretch where collective_id is null group by source_id
    ) as first on first.source_id = stretch.source_id
    asof left join meeting
        on meeting.source_id = met.source_id
        and meeting.process_id = coalesce(met.process_id, -1)
        and meeting."group" = coalesce(met.group_name, '')
        and meeting.group_ranks = coalesce(met.group_ranks, '')
        and meeting.met_ns <= met.work_start_ns
),
begun as (
    select *, least(coalesce(met_ns, first_ns, start_ns), end_ns) as since_ns
    from way
),
moment as (
    select collective_id, source_id, process, unnest([since_ns, start_ns, end_ns]) as time_ns, unnest([-1, 0, 1]) as way_sign,
        unnest([0, -1, 1]) as stretch_sign
    from begun
),
waited as (
    select collective_id, sum(way_sign * so_far_ns) as waited_ns, sum(stretch_sign * so_far_ns) as stretch_ns
    from (
        select
            moment.*,
            coalesce(waiting.before_ns + least(moment.time_ns, waiting.end_ns) - waiting.start_ns, 0) as so_far_ns
        from moment
        asof left join merged('_rank_held') as waiting
            on waiting.source_id = moment.source_id
            and waiting.process = moment.process
            and waiting.start_ns <= moment.time_ns
    )
    group by collective_id
)
select
    begun.source_id,
    begun.collective_id,
    begun.match_id,
    begun.step,
    begun."group",
    begun.since_ns,
    begun.met_ns is not null as has_met,
    begun.end_ns,
    waited.waited_ns::bigint as waited_ns,
    waited.stretch_ns::bigint as stretch_ns
from begun
join waited using (collective_id)
