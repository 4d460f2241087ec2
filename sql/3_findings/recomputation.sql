-- A row is a place where kernels of the forward run again, as the backward needs what gradient checkpointing did not keep.
--
-- Where memory suffices, turn gradient checkpointing off for as many layers as fit, or keep what is expensive to compute (selective checkpointing of torch.utils.checkpoint: matmuls and attention). To keep less: smaller batches and more gradient accumulation, attention that keeps no scores, a loss in chunks.
--
-- Without torch: Where memory suffices, keep what the forward computes, for as many layers as fit, or what is expensive to compute (matmuls, attention). To keep less: smaller batches, attention that keeps no scores.
--
-- Only with: from _blamed_kernel where rule = 'recomputation'
with
again as (
    select
        kernel.source_id,
        coalesce(
            nullif(regexp_extract(range_path.path, '^(.*?(^|/)(recompute|recomputation))(/|$)', 1), ''), node.path, range_path.path
        ) as place,
        count(*) as kernel_cnt,
        sum(kernel.critical_ns) as critical_ns
    from _blamed_kernel as kernel
    join gpu_op as op using (gpu_op_id)
    join range_path on range_path.path_id = kernel.path_id
    left join _recomputing_set as again on again.attribution_id = op.attribution_id
    left join range_path as node on node.path_id = again.place_id
    where kernel.rule = 'recomputation'
    group by all
),
-- of a device that is known the peak, where it was recorded
memory as (
    select source_id, max_by((memory_bytes, live_bytes), live_bytes / memory_bytes) as most
    from (
        select peak.source_id, device.memory_bytes, sum(peak.live_bytes) as live_bytes
        from memory_peak as peak
        join device on device.source_id = peak.source_id and peak.device = format('cuda:{}', device.device_id)
        where device.memory_bytes > 0
        group by peak.source_id, device.device_id, device.memory_bytes
    )
    group by source_id
)
select
    again.source_id,
    again.place,
    again.critical_ns as saving_ns,
    again.kernel_cnt as occurrence_cnt,
    format('{:,} kernels that the forward has run already: {} of the critical path', again.kernel_cnt, said_ns(again.critical_ns))
    || coalesce(format('; at the peak {:.1f} of {:.0f} GiB are in use', memory.most[2] / 2 ** 30, memory.most[1] / 2 ** 30), '')
        as evidence
from again
left join memory using (source_id)
