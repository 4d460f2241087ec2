-- A row is a stretch of time in which one phase of training allocated and freed memory of a device.
--
-- From the phase's first event of memory to its last before the next phase's; events that belong to no phase are left
-- out (see _memory_event_phase).
--
-- columns:
--   source_id    integer   the input
--   process_id   bigint    the process, NULL if not recorded
--   device       varchar   the device
--   phase        varchar   data, h2d, forward, backward or optimizer
--   start_ns     bigint    the first event, on the clock of the input
--   end_ns       bigint    the last

with
event as (
    select
        source_id,
        process_id,
        device,
        time_ns,
        bytes,
        phase_of_step(phase) as phase
    from _memory_event_phase
    where phase is not null and not is_before
),
marked as (
    select
        *,
        phase is distinct from lag(phase) over (
            partition by source_id, process_id, device order by time_ns, bytes
        ) as is_first
    from event
),
numbered as (
    select
        *,
        sum(is_first::integer) over (
            partition by source_id, process_id, device order by time_ns, bytes rows unbounded preceding
        ) as number
    from marked
)
select
    source_id,
    process_id,
    device,
    any_value(phase) as phase,
    min(time_ns) as start_ns,
    max(time_ns) as end_ns
from numbered
group by source_id, process_id, device, number
order by source_id, device, process_id, start_ns
