-- A row is a process of the input that is being read and its device with the most kernels, and how many these are.
--
-- Other devices wait for it, or do the same.
--
-- needs: gpu_op, reading

select process_id, arg_max(device_id, (kernel_cnt, -device_id)) as device_id, max(kernel_cnt) as kernel_cnt
from (
    select process_id, device_id, count(*) as kernel_cnt
    from gpu_op
    semi join reading using (source_id)
    where kind in ('kernel', 'graph')
    group by all
)
group by process_id
order by process_id
