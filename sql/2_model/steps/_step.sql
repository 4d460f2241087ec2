-- A row is one step: of training, of inference, of whatever the program does again and again.
--
-- All steps of an input are found in one way, the first that finds any; see step_summary. Where no range is the step,
-- range_id and path_id are NULL: the step is a stretch of time, and what its process launches in it is its work. step_id is the
-- range's, or a negative number.

with
stretch as (
    select source_id, thread_id, process_id, step, start_ns, end_ns, 'optimizer' as found_by
    from _optimizer_step
    union all
    select source_id, thread_id, process_id, step, start_ns, end_ns, 'period'
    from found_step
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
