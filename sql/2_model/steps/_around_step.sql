-- A row is a range around whole steps of its thread (`run`, `epoch`): it holds more than one step, or more than steps.
--
-- columns:
--   range_id   bigint   the range

select range.range_id
from range
asof join _step as step
    on step.source_id = range.source_id and step.thread_id = range.thread_id and step.start_ns >= range.start_ns
where step.end_ns <= range.end_ns and (step.start_ns > range.start_ns or step.end_ns < range.end_ns)
