-- A row is one range whose GPU work the GPU waits for, because the CPU is late with launching it.
--
-- The CPU is the limit here. Fewer and larger kernels: torch.compile, CUDA graphs (torch.compile(mode="reduce-overhead")), fused or foreach operators, larger batches, BatchLoRA instead of switching adapters.
select
    gap.source_id,
    gap.place,
    sum(gap.saving_ns) as saving_ns,
    count(*) as occurrence_cnt,
    format('{} gaps of {:.1f} us on average before kernels of {:.1f} us', count(*), avg(gap.idle_ns) / 1e3,
        avg(op.end_ns - op.start_ns) / 1e3) as evidence
from _blamed_gap as gap
join gpu_op as op using (gpu_op_id)
where gap.rule = 'launch_bound_range'
group by gap.source_id, gap.place
