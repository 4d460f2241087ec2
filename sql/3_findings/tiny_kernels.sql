-- A row is one range with kernels so short that the device's own gap between them is a large part of their time.
--
-- Fewer and larger kernels: an optimizer with fused=True (foreach=True at least), torch.compile, several adapters or micro batches in one pass. CUDA graphs launch them sooner, but the gaps remain.
--
-- Without torch: Fewer and larger kernels: fuse them, or compute several batches at once. CUDA graphs launch them sooner, but the gaps remain.
--
-- Only with: from _judged_gap where cause = 'kernel_wait' and rule is null
select
    gap.source_id,
    range_path.path as place,
    sum(gap.saving_ns) as saving_ns,
    count(*) as occurrence_cnt,
    format('{:,} kernels of {} on average, {} apart', count(*), said_ns(avg(gap.ended_by_ns)), said_ns(avg(gap.idle_ns))) as evidence,
    if(
        has_torch(gap.source_id) and not has_optimizer(gap.source_id),
        'Fewer and larger kernels: torch.compile, larger batches, several adapters in one pass. CUDA graphs launch them sooner, but '
        || 'the gaps remain.',
        null
    ) as advice
from _judged_gap as gap
-- what sets memory is no kernel, and mostly a library's
anti join (select gpu_op_id from gpu_op where kind <> 'kernel') as other using (gpu_op_id)  -- of those there are few
left join range_path using (path_id)
where gap.cause = 'kernel_wait'
    and gap.rule is null
    and gap.ended_by_ns <= 8 * gap.idle_ns
group by gap.source_id, range_path.path
having count(*) >= 20
