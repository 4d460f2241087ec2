-- A row is one event of a device's memory and how much is live after it.
--
-- As the file says, in the same measure as the sizes of events (blocks, or what was asked for); else the sum of what was allocated and freed since it begins. A file that begins with
-- less than the run's ledger knows to be there (torch counts from zero on a CPU) gets what it lacks.
-- So does one that frees what nobody saw allocated: torch knows on a CPU what earlier recordings of the process saw, and
-- frees at an address as much as they saw there.
--
-- torch's totals of a CPU leave out pinned memory, whose events are there: such blocks count beside the total.
--
-- Two threads that allocate at once may be timed in another order than they were counted in. Then the file's total and
-- the sum of the events part for a few events; where they part for good, events were lost.
--
-- columns:
--   source_id         integer   the input
--   process_id        bigint    the process, NULL if not recorded
--   device            varchar   the device, 'cpu' or 'cuda:0' …
--   time_ns           bigint    when, on the clock of the input
--   bytes             bigint    size, negative for a free
--   live_bytes        bigint    live in total afterwards
--   allocated_bytes   bigint    in blocks of tensors in total afterwards as the file says, NULL if not recorded
--   requested_bytes   bigint    asked for by what is live afterwards as the file says, NULL if not recorded
--   reserved_bytes    bigint    reserved from the device in total afterwards, NULL if not recorded
--   is_before         boolean   whether it is an allocation from before the recording

with
-- a block that is larger than all that is said to be live with it is in no total
apart as (
    select distinct source_id, process_id, device, address
    from memory_event
    where bytes > coalesce(allocated_bytes, requested_bytes)
),
counted as (
    select
        *,
        (source_id, coalesce(process_id, -1), device, address)
            in (select (source_id, coalesce(process_id, -1), device, address) from apart) as is_apart
    from memory_event
),
summed as (
    select
        * exclude (is_apart),
        if(is_apart, last_value(if(is_apart, null, coalesce(allocated_bytes, requested_bytes)) ignore nulls) over until_now,
            coalesce(allocated_bytes, requested_bytes))
        + coalesce(sum(bytes) filter (is_apart) over until_now, 0) as counted_bytes,
        -- what was there before the recording was there at once
        if(is_before, sum(bytes) filter (is_before) over (partition by source_id, process_id, device), sum(bytes) over until_now)
            as summed_bytes
    from counted
    window until_now as (partition by source_id, process_id, device order by time_ns, bytes rows unbounded preceding)
),
parting as (
    select source_id, process_id, device
    from summed
    group by source_id, process_id, device
    having min(counted_bytes - summed_bytes) <> max(counted_bytes - summed_bytes)
),
event as (
    select *, coalesce(counted_bytes, summed_bytes)::bigint as level_bytes
    from summed
    where (source_id, coalesce(process_id, -1), device) not in (select source_id, coalesce(process_id, -1), device from parting)
    union all by name
    select
        *,
        (summed_bytes + quantile_disc(counted_bytes - summed_bytes, 0.5) over (
            partition by source_id, process_id, device order by time_ns, bytes rows between 4 preceding and 4 following
        ))::bigint as level_bytes
    from summed
    where (source_id, coalesce(process_id, -1), device) in (select source_id, coalesce(process_id, -1), device from parting)
),
began as (
    select source_id, process_id, device, arg_min(level_bytes - bytes, (time_ns, bytes)) as bytes
    from event
    group by all
),
stock as (
    select distinct on (source_id, device, address) *
    from memory_owner
    where is_before and source_id not in (select source_id from memory_event where is_before)
),
stocked as (
    select source_id, device, sum(bytes) as bytes from stock group by all
),
followed as (
    select
        *,
        lag(bytes) over (partition by source_id, process_id, device, address order by time_ns, bytes) as before_bytes
    from memory_event
    where address is not null
),
unseen as (
    select
        followed.source_id,
        followed.process_id,
        followed.device,
        sum(greatest(0, -followed.bytes - greatest(0, coalesce(followed.before_bytes, stock.bytes, 0)))) as bytes
    from followed
    left join stock
        on stock.source_id = followed.source_id
        and stock.device = followed.device
        and stock.address = followed.address
    where followed.bytes < 0
    group by all
)
select
    event.source_id,
    event.process_id,
    event.device,
    event.time_ns,
    event.bytes,
    (event.level_bytes + greatest(0, coalesce(stocked.bytes, 0) + coalesce(unseen.bytes, 0) - began.bytes))::bigint as live_bytes,
    event.allocated_bytes,
    event.requested_bytes,
    event.reserved_bytes,
    event.is_before
from event
join began
    on began.source_id = event.source_id
    and began.process_id is not distinct from event.process_id
    and began.device = event.device
left join stocked on stocked.source_id = event.source_id and stocked.device = event.device
left join unseen
    on unseen.source_id = event.source_id
    and unseen.process_id is not distinct from event.process_id
    and unseen.device = event.device
