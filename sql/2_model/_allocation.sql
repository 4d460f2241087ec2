-- A row is one allocation, with the moment of its free; NULL where the file has none.
--
-- An address belongs to an allocation until its next event.

with
event as (
    select
        *,
        row_number() over (order by source_id, time_ns, bytes) as allocation_id
    from memory_event
    where address is not null
),
followed as (
    select
        *,
        lead(time_ns) over same_place as next_ns,
        lead(bytes) over same_place as next_bytes
    from event
    window same_place as (partition by source_id, process_id, device, address order by time_ns, allocation_id)
)
select
    allocation_id,
    source_id,
    process_id,
    thread_id,
    device,
    time_ns as start_ns,
    if(next_bytes < 0, next_ns, null) as free_ns,
    bytes
from followed
where bytes > 0
