-- A row is a rank with a different number of steps than most.
--
-- Ranks are compared in the steps that they share. Its recording began later, ended earlier, or was cut off.

with
counted as (
    select ranked.source_id, ranked.kind, ranked.rank, count(distinct step.step) as step_cnt
    from _several_ranks as ranked
    join _step as step using (source_id)
    group by ranked.source_id, ranked.kind, ranked.rank
),
compared as (
    select
        *,
        count(*) over (partition by kind) as rank_cnt,
        arg_max(rank, step_cnt) over (partition by kind) as most_rank,
        -- of two ranks neither number is usual
        if(rank_cnt = 2, max(step_cnt) over (partition by kind), mode(step_cnt) over (partition by kind)) as usual_cnt
    from counted
)
select
    source_id,
    'warning' as severity,
    abs(step_cnt - usual_cnt) as problem_cnt,
    format('rank {} has {} steps, {} {}', rank, step_cnt, if(rank_cnt = 2, format('rank {}', most_rank), 'most others'), usual_cnt) as example
from compared
where step_cnt <> usual_cnt
