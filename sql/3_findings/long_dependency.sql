-- A row is one range whose work was launched and then waited for longer than the threshold long_gap_ns while the GPU was idle.
--
-- The launch was over for most of the gap: the work waited for an event of another stream, a copy, another rank, or the driver. Look at what ended just before it, on other streams and on other ranks.
with
-- where all work is on one stream nothing of the input can be waited for
alone as (
    select source_id
    from _stream_work
    group by source_id
    having count(distinct (coalesce(process_id, 0), device_id, coalesce(context_id, 0), stream_id)) = 1
        and source_id not in (select source_id from source where world_size > 1)
)
select
    source_id,
    place,
    saving_ns,
    occurrence_cnt,
    evidence,
    if(
        alone.source_id is null,
        null,
        'Record alone if another process uses the device (nvidia-smi shows it): the launch was over for most of the gap, and '
        || 'nothing recorded works that it could wait for, so the driver held it back. Windows submits launches in batches: '
        || 'launch fewer and larger kernels there (CUDA graphs), or compare with Linux.'
    ) as advice
from _long_gap_place
left join alone using (source_id)
where rule = 'long_dependency'
