-- A row is one name path: how the work that its ranges launched used the device, by the hardware counters that nsys sampled.
--
-- As kernel_metric_summary; a kernel below a path counts for all paths above it.
--
-- columns:
--   path                 varchar   names from the outermost range down, joined by '/'
--   sampled_ns           bigint    time of its kernels and graphs in which the counters were sampled
--   limited_by           varchar   limit of the kernels that take seven tenths of its time or more (kernel_metric_summary), NULL where they differ or
--         it is not known
--   sampled_frac         double    sampled_ns as a fraction of all their time
--   alone_frac           double    part of sampled_ns in samples in which nothing else ran: below 1 the others' values are mixed in
--   sm_active_frac       double    part of the multiprocessors' time with work on them; NULL, as below, without such a counter
--   sm_issue_frac        double    part of their cycles in which they issue an instruction
--   tensor_active_frac   double    part of their cycles in which their tensor cores are at work
--   dram_read_frac       double    part of the memory's bandwidth that reads take, in samples in which the device copies and sets nothing
--   dram_write_frac      double    part of the memory's bandwidth that writes take, likewise
--   path_id              bigint    key of the path
--   source_id            integer   the input, see trace_info
--   rank                 integer   rank of the input, NULL if not recorded

select
    range_path.path,
    used.sampled_ns,
    used.limited_by,
    used.sampled_frac,
    used.alone_frac,
    used.sm_active as sm_active_frac,
    used.sm_issue as sm_issue_frac,
    used.tensor_active as tensor_active_frac,
    used.dram_read as dram_read_frac,
    used.dram_write as dram_write_frac,
    range_path.path_id,
    range_path.source_id,
    source.rank
from _metric_use as used
join range_path using (path_id)
join source on source.source_id = range_path.source_id
order by range_path.source_id, range_path.path
