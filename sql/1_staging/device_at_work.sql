-- A row is a device that did work in the input and that its file does not describe.
--
-- It is as those that the file describes, where these are all alike: ROCm counts the CPU's nodes among the devices when it
-- records work, and not when it lists them.
--
-- needs: device, gpu_op, reading

with
described as (select * from device semi join reading using (source_id)),
alike as (
    select any_value(name) as name, any_value(memory_bytes) as memory_bytes, any_value(sm_cnt) as sm_cnt
    from described
    having count(distinct (name, memory_bytes, sm_cnt)) = 1
)
select reading.source_id, used.device_id, alike.name, alike.memory_bytes, alike.sm_cnt
from (
    select distinct device_id
    from gpu_op
    semi join reading using (source_id)
) as used
cross join reading
left join alike on true
where used.device_id is not null and used.device_id not in (select device_id from described where device_id is not null)
order by used.device_id
