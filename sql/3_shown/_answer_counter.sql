-- A row is an input whose devices' counters were sampled: how its kernels and graphs use them in the steady state.
--
-- columns:
--   source_id            integer   the input
--   sampled_frac         double    part of the kernels' time in which they were sampled
--   sm_active_frac       double    part of the multiprocessors' time with work on them, while kernels run; NULL, as below, if not known
--   tensor_active_frac   double    part of their cycles in which their tensor cores are at work
--   dram_frac            double    part of the memory's bandwidth that is used

select
    source_id,
    sampled_frac,
    sm_active as sm_active_frac,
    tensor_active as tensor_active_frac,
    dram_read + dram_write as dram_frac
from _metric_use
where name_id is null and path_id is null
