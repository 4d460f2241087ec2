-- A row is one time bin of metric_over_time, as the page shows it.
--
-- columns:
--   source_id            integer   the input
--   start_ns             bigint    begin of the bin, from the input's first GPU work on
--   device_id            integer   the device
--   sm_active_frac       double    see metric_over_time
--   tensor_active_frac   double    likewise
--   dram_frac            double    reads and writes

select
    series.source_id,
    series.start_ns - begin.begin_ns as start_ns,
    series.device_id,
    series.sm_active_frac,
    series.tensor_active_frac,
    series.dram_read_frac + series.dram_write_frac as dram_frac
from metric_over_time as series
join (select source_id, min(start_ns) as begin_ns from _stream_work group by source_id) as begin using (source_id)
order by series.source_id, start_ns, series.device_id
