-- A row is an input and how long its devices' windows (steady_state) are on average: what savings, which are means of its devices, are shares of.
--
-- columns:
--   source_id   integer   the input
--   window_ns   double    the mean; the time that findings are about (_steady_time) where no device worked

select
    steady.source_id,
    coalesce(avg(device.window_ns), any_value(steady.end_ns - steady.start_ns)) as window_ns
from _steady_time as steady
left join steady_state as device using (source_id)
group by steady.source_id
