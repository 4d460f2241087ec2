-- A row is an input and what its devices' windows (steady_state) are on average: what savings, which are means of its devices, are shares of.
--
-- columns:
--   source_id    integer   the input
--   window_ns    double    how long one is; the time that findings are about (_steady_time) where no device worked
--   compute_ns   double    the time in it with kernels that do not communicate, or graphs; NULL where no device worked
--   path_ns      double    what parts of the critical path are shares of: of several devices, through which one path goes, the
--                     time from the begin to the end

select
    steady.source_id,
    coalesce(avg(device.window_ns), any_value(steady.end_ns - steady.start_ns)) as window_ns,
    avg(device.compute_ns) as compute_ns,
    if(
        count(device.window_ns) > 1, any_value(steady.end_ns - steady.start_ns),
        coalesce(avg(device.window_ns), any_value(steady.end_ns - steady.start_ns))
    )::double as path_ns
from _steady_time as steady
left join steady_state as device using (source_id)
group by steady.source_id
