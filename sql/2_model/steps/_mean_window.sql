-- A row is an input and what its devices' windows (steady_state) are on average: what savings, which are means of its devices, are shares of.
--
-- columns:
--   source_id    integer   the input
--   window_ns    double    how long one is; the time that findings are about (_steady_time) where no device worked
--   compute_ns   double    the time in it with kernels that do not communicate, or graphs; NULL where no device worked
--   path_ns      double    what parts of the critical path are shares of: of several devices, through which one path goes, the
--                     time from the start to the end

select
    source_id,
    coalesce(device_ns, enclosing_ns)::double as window_ns,
    compute_ns,
    if(device_cnt > 1, enclosing_ns, coalesce(device_ns, enclosing_ns))::double as path_ns
from (
    select
        steady.source_id,
        any_value(steady.end_ns - steady.start_ns) as enclosing_ns,
        avg(device.window_ns) as device_ns,
        avg(device.compute_ns) as compute_ns,
        count(device.window_ns) as device_cnt
    from _steady_time as steady
    left join steady_state as device using (source_id)
    group by steady.source_id
)
