-- A row is one step of training: an outermost annotation whose text ends in step, iter or iteration and a number.
--
-- Of nested ones (a ProfilerStep around a step of the program) the outer is the step.

with
named as (
    select
        range.*,
        regexp_extract(name.text, '[0-9]+$')::bigint as step
    from range
    join name on name.name_id = range.text_id
    where range.kind = 'annotation' and regexp_matches(name.text, '(?i)(step|iter|iteration)[ #_:]+[0-9]{1,18}$')
),
ranked as (
    select *, min(depth) over (partition by source_id, thread_id) as outermost
    from named
)
select source_id, range_id, path_id, thread_id, step, start_ns, end_ns
from ranked
where depth = outermost
