-- A row is an input in whose events of memory something learns.
--
-- A backward or an optimizer's step is there; or, where a recording ends before (it ran out of memory, or was stopped), the
-- stacks have functions that train: `train`, `training_step`, `fit`, the script train.py.
--
-- columns:
--   source_id    integer   the input
--   has_learned  boolean   whether a backward or a step of the optimizer is recorded

with
stack as (
    select distinct event.source_id, event.stack_id
    from memory_event as event
    where event.stack_id is not null
),
training as (
    select distinct stack.source_id
    from stack
    join name on name.name_id = stack.stack_id
    where regexp_matches(name.text, ' (\w+_)?(train(ing)?(_\w+)?|fit(_\w+)?)( <|$)|(^|[/ ])\w*train(ing)?(_\w+)?\.py:\d+ <module>')
),
learned as (
    select distinct source_id
    from _memory_event_phase
    where phase_of_step(phase) in ('backward', 'optimizer')
)
select source_id, true as has_learned
from learned
union all
select source_id, false
from training
where source_id not in (from learned)
