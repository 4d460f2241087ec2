-- A row is the time that the GPU work of one name path kept one device busy. The definition of path_busy.
--
-- A path has the work of all attributions that it is in. Computed pair by pair; the table path_busy holds the same, filled
-- from arrays.
--
-- columns:
--   path_id       bigint     the path
--   device_id     integer    the device
--   gpu_busy_ns   bigint     length of the union of the GPU operations' intervals on the device

with
-- of each operation what no earlier one of the path covers on its device
fresh as (
    select
        attribution.path_id,
        device_id,
        greatest(0, end_ns - greatest(start_ns, coalesce(max(end_ns) over earlier, start_ns))) as fresh_ns
    from attribution
    join gpu_op using (attribution_id)
    window earlier as (
        partition by attribution.path_id, device_id
        order by start_ns, gpu_op_id
        rows between unbounded preceding and 1 preceding
    )
)
select path_id, device_id, sum(fresh_ns)::bigint as gpu_busy_ns
from fresh
group by path_id, device_id
