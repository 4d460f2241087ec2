-- A row is one device in one time bin: what its hardware counters said there, on average.
--
-- Bins are those of utilisation_over_time, without those in which no sample begins. Values count idle time as well, other
-- than those of kernel_metric_summary. (nsys: gpu_metric_util_map.)
--
-- columns:
--   device_id            integer   the device
--   bin                  bigint    number of the bin, from 0
--   start_ns             bigint    its start
--   end_ns               bigint    its end
--   sample_cnt           bigint    samples that begin in it
--   sm_active_frac       double    part of the multiprocessors' time with work on them; NULL, as below, without such a counter
--   sm_issue_frac        double    part of their cycles in which they issue an instruction
--   tensor_active_frac   double    part of their cycles in which their tensor cores are at work
--   dram_read_frac       double    part of the memory's bandwidth that reads take
--   dram_write_frac      double    part of the memory's bandwidth that writes take
--   source_id            integer   the input, see trace_info
--   rank                 integer   rank of the input, NULL if not recorded

-- sums of decimals do not depend on their order
select
    sample.device_id,
    bin.bin,
    bin.start_ns,
    bin.end_ns,
    count(*) as sample_cnt,
    avg(sample.sm_active::decimal(18, 6)) as sm_active_frac,
    avg(sample.sm_issue::decimal(18, 6)) as sm_issue_frac,
    avg(sample.tensor_active::decimal(18, 6)) as tensor_active_frac,
    avg(sample.dram_read::decimal(18, 6)) as dram_read_frac,
    avg(sample.dram_write::decimal(18, 6)) as dram_write_frac,
    sample.source_id,
    any_value(source.rank) as rank
from _metric_window as sample
join source on source.source_id = sample.source_id
join _time_window as whole on whole.source_id = sample.source_id
join _time_bin as bin
    on bin.source_id = sample.source_id
    and bin.bin = bin_of(sample.start_ns, whole.first_ns, whole.span_ns, whole.bin_cnt)
group by sample.source_id, sample.device_id, bin.bin, bin.start_ns, bin.end_ns
order by sample.source_id, sample.device_id, bin.bin
