-- A row is the start of a step on a device, as far as memory was recorded.
--
-- Steps are those of the input; where it has none, as an allocator snapshot, one begins with the first forward behind an
-- optimizer's step, unless no backward is between: a forward of another model behind the step and zero_grad() behind that are
-- of the same step.
--
-- columns:
--   source_id    integer   the input
--   process      bigint    the process, -1 if not recorded
--   device       varchar   the device
--   turn         bigint    number, from 1
--   time_ns      bigint    when, on the clock of the input

with
place as (
    select
        source_id,
        coalesce(process_id, -1) as process,
        device,
        min(time_ns) as first_ns
    from memory_event
    where not is_before
    group by all
),
step as (
    select source_id, coalesce(process_id, -1) as process, start_ns as time_ns
    from _step
    where found_by <> 'period'  -- repetitions may be layers
),
-- the phases of a snapshot in their order
ordered as (
    select
        *,
        lag(phase) over of_device as before_phase,
        count(*) filter (phase = 'backward') over (of_device rows unbounded preceding) as backward_cnt
    from _memory_phase_stretch
    where source_id not in (select source_id from step)
    window of_device as (partition by source_id, process_id, device order by start_ns)
),
-- the first forwards behind a step of an optimizer; where no backward is known each counts
begun as (
    select
        *,
        backward_cnt > coalesce(lag(backward_cnt) over of_device, -1)
        or max(backward_cnt) over (partition by source_id, process_id, device) = 0 as is_border
    from ordered
    where phase in ('data', 'h2d', 'forward') and before_phase = 'optimizer'
    window of_device as (partition by source_id, process_id, device order by start_ns)
),
border as (
    select distinct place.source_id, place.process, place.device, step.time_ns
    from place
    join step
        on step.source_id = place.source_id
        and (step.process = place.process or step.process = -1 or place.process = -1)
    where step.time_ns >= place.first_ns
    union all
    select source_id, coalesce(process_id, -1), device, start_ns
    from begun
    where is_border
)
select
    source_id,
    process,
    device,
    row_number() over (partition by source_id, process, device order by time_ns) as turn,
    time_ns
from border
