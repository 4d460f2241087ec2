-- A row is a stretch in which something of a rank is looked at: a step, or its way to a matched collective.
--
-- A step is its time in _step_window; a source without steps counts as one, number NULL, from the start of its first work to
-- the end of its last. The way to a collective begins where the rank came to the matched one before, of the same group; that to the
-- first one with the first step.
--
-- columns:
--   source_id       integer   the input
--   collective_id   bigint    the matched collective, NULL for a step
--   step            bigint    number of the step
--   start_ns        bigint    begin
--   end_ns          bigint    end: of a way when the rank came to the collective

with
extent as (
    select source_id, min(start_ns) as start_ns, max(end_ns) as end_ns
    from _rank_activity
    group by source_id
),
step as (
    select source_id, step, start_ns, end_ns from _step_window semi join _several_ranks using (source_id)
    union all
    select source_id, null, start_ns, end_ns
    from extent
    where source_id not in (select source_id from _step)
),
gone as (
    select
        collective.collective_id,
        collective.source_id,
        matched.step,
        collective.work_start_ns,
        max(collective.work_start_ns) over (
            partition by collective.source_id, collective.process_id, collective.group_name, collective.group_ranks
            order by collective.work_start_ns, collective.collective_id
            rows between unbounded preceding and 1 preceding
        ) as before_ns
    from collective
    join matched_collective as matched using (collective_id)
    where matched.match_id is not null
        and collective.operation not in ('send', 'recv')
        and collective.work_start_ns is not null
)
select source_id, null as collective_id, step, start_ns, end_ns
from step
union all
select
    gone.source_id,
    gone.collective_id,
    gone.step,
    least(coalesce(gone.before_ns, first.start_ns), gone.work_start_ns),
    gone.work_start_ns
from gone
left join (select source_id, min(start_ns) as start_ns from step group by source_id) as first using (source_id)
