-- A row is one step: of training, of inference, of whatever the program does again and again.
--
-- All steps of an input are found in one way, the first that finds any; see step_summary. Where no range is the step,
-- range_id and path_id are NULL: the step is a stretch of time, and what its process launches in it is its work. What
-- repeats within one forward, backward or optimizer is its layers, and no steps.
--
-- columns:
--   source_id    integer   the input
--   step_id      bigint    the range's range_id, or a negative number
--   range_id     bigint    the range that is the step, NULL where none is
--   path_id      bigint    its name path, NULL likewise
--   thread_id    bigint    thread of the step
--   process_id   bigint    process of the step, NULL if not recorded
--   step         bigint    its number
--   start_ns     bigint    begin
--   end_ns       bigint    end
--   found_by     varchar   'annotation', 'framework', 'repetition', 'optimizer' or 'period', see step_summary

with
phase as (
    select range.source_id, range.range_id, range.start_ns, range.end_ns
    from range
    join _phase_name as named on named.name_id = range.text_id
    where range.kind = 'annotation'
        and named.phase in ('forward', 'backward', 'optimizer')
        and range.source_id in (select source_id from found_step)
),
layered as (
    select found.source_id
    from found_step as found
    join phase
        on phase.source_id = found.source_id and found.start_ns >= phase.start_ns and found.start_ns < phase.end_ns
    group by found.source_id, phase.range_id
    having count(*) > 1
),
stretch as (
    select source_id, thread_id, process_id, step, start_ns, end_ns, 'optimizer' as found_by
    from _optimizer_step
    union all
    select source_id, thread_id, process_id, step, start_ns, end_ns, 'repetition'
    from _sibling_step
    union all
    select source_id, thread_id, process_id, step, start_ns, end_ns, 'period'
    from found_step
    where source_id not in (from layered)
)
select source_id, range_id as step_id, range_id, path_id, thread_id, process_id, step, start_ns, end_ns, found_by
from _step_range
union all
select
    source_id,
    -row_number() over (order by source_id, process_id, thread_id, start_ns),
    null,
    null,
    thread_id,
    process_id,
    step,
    start_ns,
    end_ns,
    found_by
from stretch
