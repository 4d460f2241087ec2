-- A row is what the ranges of one name path add up to. It fills the table path_measure.
--
-- columns:
--   path_id              bigint   the path
--   range_cnt            bigint   ranges
--   unfinished_cnt       bigint   ranges whose end was not recorded
--   wall_ns              bigint   summed duration on the CPU
--   self_wall_ns         bigint   the same without the time that the ranges directly below cover
--   gpu_span_ns          bigint   summed last end - first start of each range's GPU work
--   gpu_busy_inside_ns   bigint   summed gpu_busy_inside_ns of range_measure

select
    range.path_id,
    count(*) as range_cnt,
    count(*) filter (is_unfinished) as unfinished_cnt,
    sum(end_ns - start_ns)::bigint as wall_ns,
    sum(end_ns - start_ns - covered_ns)::bigint as self_wall_ns,
    coalesce(sum(last_gpu_end_ns - first_gpu_start_ns), 0)::bigint as gpu_span_ns,
    coalesce(sum(gpu_busy_inside_ns), 0)::bigint as gpu_busy_inside_ns
from range
left join range_measure using (range_id)
group by range.path_id
