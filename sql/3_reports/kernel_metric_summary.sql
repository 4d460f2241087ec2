-- A row is one kernel: how it used the device, by the hardware counters that nsys sampled.
--
-- Values are means over the kernel's own time. What a counter counts in a sample is shared by all that ran in it, by time,
-- and counts nothing while nothing runs; so values of kernels shorter than the distance of samples are mixtures.
--
-- columns:
--   short_name           varchar   short name, unique within the input's costliest kernels
--   sampled_ns           bigint    time of its kernels and graphs in which the counters were sampled
--   limited_by           varchar   'memory', 'tensor cores' or 'instructions' at limit_frac of its peak (see threshold) or above; else
--         'idle multiprocessors', or 'latency' where they are at work and wait; NULL for mixed, unknown or few values, and where
--         numbers of 64 bits seem to wait
--   sampled_frac         double    sampled_ns as a fraction of all their time
--   alone_frac           double    part of sampled_ns in samples in which nothing else ran: below 1 the others' values are mixed in
--   sm_active_frac       double    part of the multiprocessors' time with work on them; NULL, as below, without such a counter
--   sm_issue_frac        double    part of their cycles in which they issue an instruction
--   tensor_active_frac   double    part of their cycles in which their tensor cores are at work
--   dram_read_frac       double    part of the memory's bandwidth that reads take, in samples in which the device copies and sets nothing
--   dram_write_frac      double    part of the memory's bandwidth that writes take, likewise
--   kernel_name          varchar   the kernel, or '[CUDA graph]'
--   source_id            integer   the input, see trace_info
--   rank                 integer   rank of the input, NULL if not recorded

select
    coalesce(short.short_name, name.text) as short_name,
    used.sampled_ns,
    used.limited_by,
    used.sampled_frac,
    used.alone_frac,
    used.sm_active as sm_active_frac,
    used.sm_issue as sm_issue_frac,
    used.tensor_active as tensor_active_frac,
    used.dram_read as dram_read_frac,
    used.dram_write as dram_write_frac,
    name.text as kernel_name,
    used.source_id,
    source.rank
from _metric_use as used
join name using (name_id)
join source on source.source_id = used.source_id
left join _short_name as short on short.source_id = used.source_id and short.name_id = used.name_id
order by used.source_id, used.sampled_ns desc, kernel_name
