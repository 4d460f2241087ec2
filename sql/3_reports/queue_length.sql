-- A row is one stream in one time bin: how much work had been launched and had not begun.
--
-- Work is in the queue from the end of its launching call to its start on the GPU. The mean is exact: waiting time in
-- the bin over its length. Work whose launching call is not in the file is left out. (HTA: queue length.)
--
-- columns:
--   device_id      integer   the device
--   stream_id      bigint    the stream
--   bin            bigint    number of the bin, from 0
--   start_ns       bigint    its start
--   end_ns         bigint    its end
--   waiting_ns     bigint    summed time that work waited within the bin
--   mean_queue_cnt double    waiting_ns / length of the bin: operations that waited on average
--   source_id      integer   the input, see trace_info
--   rank           integer   rank of the input, NULL if not recorded

with
stream_bin as (
    select bin.*, used.device_id, used.stream_id
    from _time_bin as bin
    join (select distinct source_id, device_id, stream_id from gpu_op) as used using (source_id)
)
select
    stream_bin.device_id,
    stream_bin.stream_id,
    stream_bin.bin,
    stream_bin.start_ns,
    stream_bin.end_ns,
    coalesce(waited.length_ns, 0)::bigint as waiting_ns,
    coalesce(waited.length_ns, 0) / nullif(stream_bin.end_ns - stream_bin.start_ns, 0)::double as mean_queue_cnt,
    stream_bin.source_id,
    source.rank
from stream_bin
join source on source.source_id = stream_bin.source_id
left join time_in_bins('_queue_edge') as waited
    on waited.source_id = stream_bin.source_id
    and waited.device_id is not distinct from stream_bin.device_id
    and waited.series is not distinct from stream_bin.stream_id
    and waited.bin = stream_bin.bin
order by stream_bin.source_id, stream_bin.device_id, stream_bin.stream_id, stream_bin.bin
