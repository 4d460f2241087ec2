-- A row is one range whose GPU work the GPU waits for, because the CPU is late with launching it.
--
-- Launch fewer and larger kernels: torch.compile, CUDA graphs (torch.compile(mode="reduce-overhead")), fused or foreach operators, larger batches.
--
-- Without torch: Launch fewer and larger kernels: CUDA graphs, fused kernels (XLA makes them for TensorFlow and JAX), larger batches.
with late as (
    select
        gap.source_id,
        gap.path_id,
        sum(gap.saving_ns) as saving_ns,
        count(*) as occurrence_cnt,
        avg(gap.idle_ns) as gap_ns,
        max(gap.idle_ns) as longest_ns,
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
    format(if(late.occurrence_cnt = 1, '{} gap of {} before a kernel of {}', '{} gaps of {} before kernels of {}'),
        late.occurrence_cnt, said_mean(late.occurrence_cnt, late.gap_ns, late.longest_ns), said_ns(late.op_ns)) as evidence,
    coalesce(ddp_advice(range_path.path), case
        when range_path.path like '%zero_grad%' then
            'Let gradients be none instead of zero: optimizer.zero_grad(set_to_none=True) launches nothing. '
            || 'Elsewhere launch fewer and larger kernels: torch.compile, CUDA graphs, foreach operators.'
        when regexp_matches(range_path.path, 'CompiledFxGraph|Torch-Compiled Region') then
            'It is compiled: let CUDA graphs launch it, torch.compile(mode="reduce-overhead"), with shapes that do not change. '
            || 'Elsewhere launch fewer and larger kernels: larger batches.'
        when exists (select 1 from _lora_path as lora where lora.source_id = late.source_id) then
            'Launch fewer and larger kernels: all adapters in one pass (BatchLoRA) instead of one after another, '
            || 'torch.compile, CUDA graphs, fused or foreach operators, larger batches.'
    end) as advice
from late
left join range_path using (path_id)
