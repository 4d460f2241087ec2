-- A row is a moment of a device and what pools of CUDA graphs hold of it from then on besides blocks that are in use.
--
-- Replays use it, of which nothing is recorded. What the pools hold is known for the end of a snapshot; a block in use is
-- in a pool if its address is. The first row of a device is from before all time.
--
-- columns:
--   source_id     integer   the input
--   device        varchar   the device
--   time_ns       bigint    from when on
--   graph_bytes   bigint    what the pools hold besides, no more than is reserved and not in use

with
pool as (
    select source_id, device, address, reserved_bytes from memory_segment where pool = 'graph'
),
whole as (
    select source_id, device, sum(reserved_bytes) as bytes from pool group by all
),
inside as (
    select event.source_id, event.device, event.time_ns, event.bytes
    from memory_event as event
    asof join pool
        on pool.source_id = event.source_id and pool.device = event.device and pool.address <= event.address
    where event.address < pool.address + pool.reserved_bytes
),
used as (
    select
        source_id,
        device,
        time_ns,
        sum(sum(bytes)) over (partition by source_id, device order by time_ns) as bytes
    from inside
    group by source_id, device, time_ns
),
level as (
    select
        moment.source_id, moment.device, moment.time_ns, moment.reserved_bytes - moment.live_bytes as unused_bytes,
        coalesce(used.bytes, 0) as used_bytes
    from _memory_level as moment
    asof left join used
        on used.source_id = moment.source_id and used.device = moment.device and used.time_ns <= moment.time_ns
    where moment.source_id in (select source_id from pool)
)
select source_id, device, -9223372036854775807 as time_ns, bytes::bigint as graph_bytes
from whole
union all
select
    level.source_id,
    level.device,
    level.time_ns,
    greatest(0, least(whole.bytes - level.used_bytes, coalesce(level.unused_bytes, whole.bytes)))::bigint as graph_bytes
from level
join whole using (source_id, device)
