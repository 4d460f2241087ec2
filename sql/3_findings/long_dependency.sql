-- A row is one range whose work was launched and then waited for longer than the threshold long_gap_ns while the GPU was idle.
--
-- The launch had returned before most of the gap: the work waited for an event of another stream, a copy, another rank, or the driver. Look at what ended just before it, on other streams and on other ranks.
--
-- Only with: from _long_gap_place where rule = 'long_dependency'
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
    long.source_id,
    long.place,
    long.saving_ns,
    long.occurrence_cnt,
    long.evidence
    || if(far.hosted_frac > 0.5, format('; {:.0f}% of it after a host function in the stream', 100 * far.hosted_frac), '')
        as evidence,
    case
        when far.hosted_frac > 0.5
            then 'Work behind a host function in its stream (cudaLaunchHostFunc, cudaStreamAddCallback) waits until '
                || 'that has run: keep it short, put it into a separate stream, or leave its work to a thread that waits for an '
                || 'event.'
        when long.is_launching or long.is_lacking then long.what_to_do
        when alone.source_id is not null and starts_with(system_of(long.source_id), 'Windows')
            then 'Launch fewer and larger kernels (CUDA graphs), or compare with Linux: the launch had returned before most of the gap, and '
                || 'nothing recorded was running that it could wait for, so the driver held it back: Windows submits launches in batches. '
                || 'Another process that uses the device (nvidia-smi shows it) would do so, too.'
        when alone.source_id is not null
            then 'Record alone if another process uses the device (see nvidia-smi): the launch had returned before most of the gap, and '
                || 'nothing recorded was running that it could wait for, so the driver held it back.'
                || if(system_of(long.source_id) is null,
                    ' Windows submits launches in batches: launch fewer and larger kernels there (CUDA graphs), or compare with Linux.',
                    '')
    end as advice
from _long_gap_place as long
left join alone using (source_id)
left join _place_call as far
    on far.source_id = long.source_id
    and far.rule = long.rule
    and far.place is not distinct from long.place
where long.rule = 'long_dependency'
