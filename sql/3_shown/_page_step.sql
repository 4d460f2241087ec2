-- A row is one step of step_summary and the adapter that it is of, where others have steps of the same number.
--
-- Adapters that are trained in turn share numbers of steps. A step is of the one adapter whose ranges (_lora_path) begin in it.
--
-- columns:
--   source_id   integer   the input
--   step        bigint    its number
--   start_ns    bigint    begin
--   adapter     varchar   the adapter, NULL where the number says which step it is, and where no adapter or several ran in it

with
shared as (
    select source_id, step, start_ns, wall_ns
    from step_summary
    qualify count(*) over (partition by source_id, step) > 1
),
opened as (
    select range.source_id, range.start_ns, own.adapter
    from range
    join _lora_path as own using (path_id)
    where own.adapter is not null and range.source_id in (select source_id from shared)
),
ran as (
    select shared.source_id, shared.step, shared.start_ns, any_value(opened.adapter) as adapter
    from opened
    asof join shared on shared.source_id = opened.source_id and shared.start_ns <= opened.start_ns
    where opened.start_ns < shared.start_ns + shared.wall_ns
    group by shared.source_id, shared.step, shared.start_ns
    having count(distinct opened.adapter) = 1
)
select step.source_id, step.step, step.start_ns, ran.adapter
from step_summary as step
left join ran using (source_id, step, start_ns)
order by step.source_id, step.start_ns, step.step
