-- A row is a device in one time bin, as the page shows what its counters say: as metric_over_time, in bins in which no sample begins what holds there.
--
-- columns:
--   source_id            integer   the input
--   start_ns             bigint    begin of the bin, from the input's first GPU work on
--   device_id            integer   the device
--   sm_active_frac       double    see metric_over_time, NULL where nothing was sampled
--   tensor_active_frac   double    likewise
--   dram_frac            double    reads and writes

with
bin as (
    select bin.source_id, sampled.device_id, bin.bin, bin.start_ns
    from _time_bin as bin
    join (select distinct source_id, device_id from _metric_window) as sampled using (source_id)
)
select
    bin.source_id,
    bin.start_ns - begin.begin_ns as start_ns,
    bin.device_id,
    coalesce(series.sm_active_frac, if(held.end_ns > bin.start_ns, held.sm_active, null)) as sm_active_frac,
    coalesce(series.tensor_active_frac, if(held.end_ns > bin.start_ns, held.tensor_active, null)) as tensor_active_frac,
    coalesce(
        series.dram_read_frac + series.dram_write_frac, if(held.end_ns > bin.start_ns, held.dram_read + held.dram_write, null)
    ) as dram_frac
from bin
join (select source_id, min(start_ns) as begin_ns from _stream_work group by source_id) as begin using (source_id)
left join metric_over_time as series
    on series.source_id = bin.source_id and series.device_id = bin.device_id and series.bin = bin.bin
asof left join _metric_window as held
    on held.source_id = bin.source_id and held.device_id = bin.device_id and held.start_ns <= bin.start_ns
order by bin.source_id, start_ns, bin.device_id
