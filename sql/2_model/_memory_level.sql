-- A row is one event of a device's memory and how much is allocated after it.
--
-- As the file says; where it does not, the sum of what was allocated and freed since it begins.

select
    source_id,
    process_id,
    device,
    time_ns,
    bytes,
    coalesce(
        allocated_bytes,
        sum(bytes) over (
            partition by source_id, process_id, device order by time_ns, bytes rows unbounded preceding
        )
    )::bigint as allocated_bytes,
    reserved_bytes
from memory_event
