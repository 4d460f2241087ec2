-- A row is one stream in one time bin: how much work had been launched and had not begun.
--
-- Work is in the queue from the end of its launching call to its begin on the GPU. The mean is exact: waiting time in
-- the bin over its length. Work whose launching call is not in the file is left out. (HTA: queue length.)
--
-- columns:
--   device_id      integer   the device
--   stream_id      bigint    the stream
--   bin            bigint    number of the bin, from 0
--   start_ns       bigint    its begin
--   end_ns         bigint    its end
--   waiting_ns     bigint    summed time that work waited within the bin
--   mean_queue_cnt double    waiting_ns / length of the bin: operations that waited on average
--   source_id      integer   the input, see trace_info
--   rank           integer   rank of the input, NULL where it does not say

with
waiting as (
    select source_id, device_id, stream_id, launch_end_ns as start_ns, start_ns as end_ns
    from gpu_op
    where launch_end_ns < start_ns
),
stream_bin as (
    select bin.*, used.device_id, used.stream_id
    from _time_bin as bin
    join (select distinct source_id, device_id, stream_id from gpu_op) as used using (source_id)
),
-- what has waited up to a moment is a sum over what began before it less what ended: no pair of work and bin is made
edge as (
    select source_id, device_id, stream_id, start_ns as time_ns, 1 as step
    from waiting
    union all
    select source_id, device_id, stream_id, end_ns, -1
    from waiting
),
moment as (
    select
        source_id,
        device_id,
        stream_id,
        time_ns,
        sum(sum(step)) over before as queue_cnt,
        sum(sum(step * time_ns::hugeint)) over before as weight
    from edge
    group by source_id, device_id, stream_id, time_ns
    window before as (partition by source_id, device_id, stream_id order by time_ns)
),
border as (
    select source_id, device_id, stream_id, bin, start_ns as time_ns from stream_bin
    union all
    select source_id, device_id, stream_id, max(bin) + 1, max(end_ns) from stream_bin
    group by source_id, device_id, stream_id
),
until as (
    select
        border.source_id,
        border.device_id,
        border.stream_id,
        border.bin,
        coalesce(moment.queue_cnt * border.time_ns::hugeint - moment.weight, 0) as waited
    from border
    asof left join moment
        on moment.source_id = border.source_id
        and moment.device_id = border.device_id
        and moment.stream_id = border.stream_id
        and moment.time_ns <= border.time_ns
)
select
    stream_bin.device_id,
    stream_bin.stream_id,
    stream_bin.bin,
    stream_bin.start_ns,
    stream_bin.end_ns,
    (later.waited - earlier.waited)::bigint as waiting_ns,
    (later.waited - earlier.waited) / nullif(stream_bin.end_ns - stream_bin.start_ns, 0)::double as mean_queue_cnt,
    stream_bin.source_id,
    source.rank
from stream_bin
join until as earlier using (source_id, device_id, stream_id, bin)
join until as later
    on later.source_id = stream_bin.source_id
    and later.device_id = stream_bin.device_id
    and later.stream_id = stream_bin.stream_id
    and later.bin = stream_bin.bin + 1
join source on source.source_id = stream_bin.source_id
order by stream_bin.source_id, stream_bin.device_id, stream_bin.stream_id, stream_bin.bin
