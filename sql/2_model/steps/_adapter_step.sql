-- A row is a step of an input whose adapters train in turn, and the one adapter that it trains.
--
-- By the ranges of adapters' parts (_lora_path) in it. They train in turn where nine of ten steps with such ranges have those
-- of one adapter alone, and at least two adapters have as many as two on average.
--
-- columns:
--   source_id   integer   the input
--   step_id     bigint    the step, as _step has it
--   start_ns    bigint    its begin
--   adapter     varchar   the adapter, as _lora_path has it

with
used as (
    select step.source_id, step.step_id, step.start_ns, count(distinct part.adapter) as adapter_cnt, any_value(part.adapter) as adapter
    from _lora_path as part
    join range on range.path_id = part.path_id
    asof join _step as step
        on step.source_id = range.source_id and step.thread_id = range.thread_id and step.start_ns <= range.start_ns
    where part.adapter is not null and range.start_ns < step.end_ns
    group by step.source_id, step.step_id, step.start_ns
)
select source_id, step_id, start_ns, adapter
from used
semi join (
    select source_id
    from used
    group by source_id
    having count(*) filter (adapter_cnt = 1) >= 0.9 * count(*)
        and count(distinct adapter) >= 2
        and count(*) >= 2 * count(distinct adapter)
) as turning using (source_id)
where adapter_cnt = 1
