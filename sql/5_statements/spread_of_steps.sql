-- A row is how a column of step_summary spreads over warm steps: its quartiles, and each step with its kind.
--
-- Of several ranks the mean of a step counts: they take it together. Adapters in turn are one step. A step without a phase
-- that others have spends nothing in it. Steps that do as much are of one kind: those that learn, those that only evaluate,
-- micro steps, by their tokens.
--
-- given: measure, counted (inputs), step (what is one step), few

with
turn as (
    select
        source_id,
        turn_id,
        any_value(step) as step,
        concat_ws(
            ' ',
            if(sum(backward_ns) is null, 'evaluates', 'learns'),
            if(sum(optimizer_ns) is null, 'without', 'with'),
            sum(token_cnt)
        ) as kind,
        min(start_ns) as start_ns,
        coalesce(
            sum($measure),
            if(max(sum($measure)) over (partition by source_id) is null, null, 0)
        ) as value
    from _turned_step
    group by source_id, turn_id
),
step as (
    select
        min(turn.source_id) as source_id,
        min(turn.turn_id) as turn_id,
        any_value(turn.kind order by turn.source_id) as kind,
        avg(turn.value) filter (turn.start_ns >= coalesce(steady.first_step_ns, turn.start_ns)) as warm
    from turn
    left join _steady_time as steady using (source_id)
    where turn.source_id in (select source_id from source where $counted)
    group by $step
)
select
    low_quartile(warm, $few),
    quantile_cont(warm, 0.5),
    high_quartile(warm, $few),
    list((kind, warm::double) order by source_id, turn_id) filter (warm is not null)
from step
