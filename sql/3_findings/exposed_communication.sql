-- A row is one range whose communication runs while the GPU computes nothing.
--
-- Overlap it with computing (DDP's buckets, FSDP's prefetching, gradient accumulation with no_sync), send less (LoRA's gradients alone, bfloat16), or find the rank that comes late: see straggler.
select
    exposed.source_id,
    range_path.path as place,
    sum(exposed.exposed_ns) / any_value(devices.cnt) as saving_ns,
    count(*) as occurrence_cnt,
    format('{:.3f} ms of communication with nothing beside it, most of it {}', sum(exposed.exposed_ns) / 1e6,
        left(arg_max(name.text, exposed.exposed_ns), 60)) as evidence
from _exposed as exposed
join gpu_op as op using (gpu_op_id)
join name on name.name_id = op.name_id
join (select source_id, count(distinct device_id) as cnt from gpu_op group by source_id) as devices
    on devices.source_id = exposed.source_id
left join range using (range_id)
left join range_path using (path_id)
where exposed.activity = 'communication' and exposed.exposed_ns > 0
group by exposed.source_id, range_path.path
