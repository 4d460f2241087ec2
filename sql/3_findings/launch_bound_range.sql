-- A row is one range whose GPU work the GPU waits for, because the CPU is late with launching it.
--
-- Launch fewer and larger kernels: torch.compile, CUDA graphs (torch.compile(mode="reduce-overhead")), fused or foreach operators, larger batches.
--
-- Without torch: Launch fewer and larger kernels: CUDA graphs, fused kernels (XLA makes them for TensorFlow and JAX), larger batches.
with
several as (
    select source_id
    from _lora_path
    group by source_id
    having count(distinct adapter) > 1
)
select
    late.source_id,
    late.place,
    late.saving_ns,
    late.occurrence_cnt,
    if(late.occurrence_cnt = 1, 'a gap', format('{:,} gaps', late.occurrence_cnt))
    || format(' before {} of {}, ', if(late.occurrence_cnt = 1, 'a kernel', 'kernels'), said_ns(late.ended_by_ns))
    || said_lengths(late.occurrence_cnt, late.mean_ns, late.longest_ns, late.long_cnt, late.long_ns) as evidence,
    coalesce(ddp_advice(late.place), case
        when late.place like '%zero_grad%' then
            'Let gradients be none instead of zero: optimizer.zero_grad(set_to_none=True) launches nothing. '
            || 'Elsewhere launch fewer and larger kernels: torch.compile, CUDA graphs, foreach operators.'
        when regexp_matches(late.place, 'CompiledFxGraph|Torch-Compiled Region') then
            'It is compiled: let CUDA graphs launch it, torch.compile(mode="reduce-overhead"), with shapes that do not change. '
            || 'Elsewhere launch fewer and larger kernels: larger batches.'
        -- one adapter, or operators that treat all of them at once, have nothing to be put together
        when late.source_id in (from several) then
            'Launch fewer and larger kernels: all adapters in one pass (BatchLoRA) instead of one after another, '
            || 'torch.compile, CUDA graphs, fused or foreach operators, larger batches.'
    end) as advice
from _blamed_place as late
where late.rule = 'launch_bound_range'
