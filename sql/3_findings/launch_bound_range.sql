-- A row is one range whose GPU work the GPU waits for, because the CPU is late with launching it.
--
-- Launch fewer and larger kernels: torch.compile, CUDA graphs (torch.compile(mode="reduce-overhead")), fused or foreach operators, larger batches, BatchLoRA instead of switching adapters.
with late as (
    select
        gap.source_id,
        gap.path_id,
        sum(gap.saving_ns) as saving_ns,
        count(*) as occurrence_cnt,
        avg(gap.idle_ns) as gap_ns,
        avg(op.end_ns - op.start_ns) as op_ns
    from _judged_gap as gap
    join gpu_op as op using (gpu_op_id)
    where gap.rule = 'launch_bound_range'
    group by gap.source_id, gap.path_id
)
select
    late.source_id,
    range_path.path as place,
    late.saving_ns,
    late.occurrence_cnt,
    format('{} gaps of {} on average before kernels of {}', late.occurrence_cnt, said_ns(late.gap_ns),
        said_ns(late.op_ns))
        as evidence
from late
left join range_path using (path_id)
