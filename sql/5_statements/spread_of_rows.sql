-- A row is a name, or all of them, and how its amounts spread over the steps.
--
-- Amounts are those of a view of 3_compared, by their moments and processes; numbers stand for names until all is added up.
-- Of each name: whether it stands for all, the quartiles over warm steps, in how many steps it is, which share of it is in
-- steps and in warm ones, its sum, and of each kind of steps the count, the sum, the sum of squares and, of a few, each.
--
-- given: amounts, measure, chosen (which of its rows), named (key and name), wanted (of the names), counted (inputs),
--     process, whose and steps_of_all (how many inputs take a step together), few

with
step as (
    select source_id, step, start_ns, end_ns, $process as process, kind, is_warm
    from _compared_step
    where source_id in (select source_id from source where $counted)
),
named as (
    select key, name
    from ($named)
    where $wanted
),
by_step as (
    select
        amount.key,
        $whose as whose,
        if(amount.at_ns <= step.end_ns, step.step, null) as step,
        any_value(step.kind) as kind,
        amount.at_ns <= step.end_ns and step.is_warm as is_warm,
        sum(amount.$measure)::double as value
    from (from $amounts where $chosen) as amount
    asof left join step
        on step.source_id = amount.source_id
        and step.process = amount.process
        and step.start_ns <= amount.at_ns
    where amount.source_id in (select source_id from step)
    group by all
),
summed as (
    select
        named.name,
        grouping(named.name) as is_all,
        whose,
        step,
        sum(by_step.value) as value,
        any_value(by_step.kind) as kind,
        if(by_step.step is null or sum(by_step.value) <= 0, null, sum(by_step.value)) as inside,
        if(bool_and(by_step.is_warm), inside, null) as warm,
        warm / $steps_of_all as of_step
    from by_step
    join named using (key)
    group by grouping sets ((named.name, whose, step), (whose, step))
)
select
    name,
    is_all,
    low_quartile(of_step, $few),
    quantile_cont(of_step, 0.5),
    high_quartile(of_step, $few),
    count(of_step),
    coalesce(sum(inside), 0) / nullif(sum(value), 0),
    coalesce(sum(warm), 0) / nullif(sum(value), 0),
    sum(value),
    [moments(of_step, kind = 0), moments(of_step, kind = 1), moments(of_step, kind = 2), moments(of_step, kind = 3)],
    [
        listed(of_step, whose, step, kind = 0),
        listed(of_step, whose, step, kind = 1),
        listed(of_step, whose, step, kind = 2),
        listed(of_step, whose, step, kind = 3)
    ]
from summed
group by name, is_all
