-- A row is an input and what its devices' windows (steady_state) are on average: what savings, which are means of its devices, are shares of.
--
-- columns:
--   source_id    integer   the input
--   window_ns    double    how long one is; the time that findings are about (_steady_time) where no device worked
--   compute_ns   double    the time in it with kernels that do not communicate, or graphs; NULL where no device worked

select
    steady.source_id,
    coalesce(avg(device.window_ns), any_value(steady.end_ns - steady.start_ns)) as window_ns,
    avg(device.compute_ns) as compute_ns
from _steady_time as steady
left join steady_state as device using (source_id)
group by steady.source_id
