-- A row is a kind of inputs of several ranks and what they save without their stragglers: _answer_rule of all of them.
--
-- columns:
--   kind              varchar   kind of the inputs
--   told_by           integer   the input that says the same by a rule of its own, as the one that is late because it is idle, else NULL
--   rule              varchar   'straggler_rank'
--   saving_ns         bigint    what all stragglers save
--   place_cnt         bigint    ranks, without those that save next to nothing
--   place             varchar   the rank that saves most
--   place_saving_ns   bigint    its part
--   evidence          varchar   what speaks for it
--   advice            varchar   what to do there
--   is_predicted      boolean   whether it is by replay
--   are_in_turn       boolean   whether ranks are late in turn: in most of several steps one alone is

with
-- of each rank as many inputs as its profiler had cycles, each of which is as long as the one that is shown
cycle as (
    select kind, max(cnt) as cycle_cnt
    from (
        select kind, rank, count(*) as cnt
        from _counted_rank
        group by all
    )
    group by kind
)
select
    source.kind,
    if(count(*) filter (is_listed) <= 1 and starts_with(arg_max(why.cause, weight), 'idle'), arg_max(found.source_id, weight), null)
        as told_by,
    found.rule,
    (sum(found.saving_ns) / any_value(found.cycle_cnt))::bigint as saving_ns,
    greatest(1, count(distinct found.place) filter (is_listed)) as place_cnt,
    arg_max(found.place, weight) as place,
    (arg_max(found.saving_ns, weight) / any_value(found.cycle_cnt))::bigint as place_saving_ns,
    arg_max(found.evidence, weight) as evidence,
    arg_max(found.advice, weight) as advice,
    bool_and(found.is_predicted) as is_predicted,
    (
        select count(*) > 1 and 2 * count(*) filter (late.rank_cnt = 1) > count(*)
        from (select step, count(distinct rank) as rank_cnt from _straggler where is_straggler group by step) as late
    ) as are_in_turn
from (
    select
        found.*,
        (saving_ns, -source_id) as weight,
        saving_ns >= (steady.end_ns - steady.start_ns) * (select value from threshold where name = 'least_frac') as is_listed,
        cycle.cycle_cnt
    from _answer_rule as found
    join _steady_time as steady using (source_id)
    join source using (source_id)
    join cycle using (kind)
    where found.rule = 'straggler_rank'
) as found
join source using (source_id)
left join _straggler_cause as why on why.source_id = found.source_id
group by source.kind, found.rule
