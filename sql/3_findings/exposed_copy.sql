-- A row is one range whose copies or memsets run while the GPU does nothing else.
--
-- Copy ahead on a stream of its own from pinned memory (non_blocking=True), keep tensors on the device, or copy less: token ids instead of embeddings, bfloat16 instead of float32.
select
    exposed.source_id,
    range_path.path as place,
    sum(exposed.exposed_ns) / any_value(devices.cnt) as saving_ns,
    count(*) as occurrence_cnt,
    format('{:.3f} ms of copies with nothing beside them, most of them {}', sum(exposed.exposed_ns) / 1e6,
        arg_max(name.text, exposed.exposed_ns)) as evidence
from _exposed as exposed
join gpu_op as op using (gpu_op_id)
join name on name.name_id = op.name_id
join (select source_id, count(distinct device_id) as cnt from gpu_op group by source_id) as devices
    on devices.source_id = exposed.source_id
left join range using (range_id)
left join range_path using (path_id)
where exposed.activity = 'memory' and exposed.exposed_ns > 0
group by exposed.source_id, range_path.path
