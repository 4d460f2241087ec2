-- A row is one range whose GPU work the GPU waits for, because the CPU is late with launching it.
--
-- Launch fewer and larger kernels: torch.compile, CUDA graphs (torch.compile(mode="reduce-overhead")), fused or foreach operators, larger batches.
--
-- Without torch: Launch fewer and larger kernels: CUDA graphs, fused kernels (XLA makes them for TensorFlow and JAX), larger batches.
--
-- Only with: from _blamed_place where rule = 'launch_bound_range'
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
    || format(
        ' before {} of {}, ',
        case
            when far.copy_frac > 0.5 then if(late.occurrence_cnt = 1, 'a copy or memset', 'copies and memsets')
            when far.graph_frac > 0.5 then if(late.occurrence_cnt = 1, 'the first kernel of a graph', 'the first kernels of graphs')
            else if(late.occurrence_cnt = 1, 'a kernel', 'kernels')
        end,
        said_ns(late.ended_by_ns)
    )
    || said_lengths(late.occurrence_cnt, late.mean_ns, late.longest_ns, late.long_cnt, late.long_ns)
    || coalesce(
        format('; {:.0f}% of their time the CPU is in {}', 100 * coalesce(far.call_frac, far.system_frac),
            coalesce(far.call_name, far.system_name)),
        coalesce('; ' || sampled.said, '')
    ) as evidence,
    coalesce(ddp_advice(late.source_id, late.place), case
        when far.call_name is not null then call_advice(far.call_name, false, false, has_torch(late.source_id))
        when far.system_name is not null then system_advice(os_kind_of(far.system_name), far.has_others)
        when far.within_frac > 0.5 then
            'Copy less within the device: each of many small copies is a launch. Write results where they are needed (views, '
            || 'out=, operators in place), or let torch.compile fuse copies (clone, contiguous) with what reads them.'
        when far.copy_frac > 0.5 then
            'Merge small copies: one of a packed buffer in place of many, or keep on the device what does not change, and '
            || 'fill it there.'
        when regexp_matches(late.place, '(^|/)(nccl:_?|NCCL:nccl|c10d::_?)(all_?reduce|reduce_?scatter|all_?gather)') and late.occurrence_cnt > 1 then
            'Send more at once: one call for a bucket of tensors in place of one for each (DDP''s bucket_cap_mb; '
            || 'torch.distributed''s coalescing, or gradients flattened into one buffer).'
        when far.graph_frac > 0.5 then
            'They are graphs already: capture more in each (several steps or layers, what is launched between them), so that fewer '
            || 'and larger ones are launched; and let the CPU do less between them.'
        when late.place like '%zero_grad%' then
            'Set gradients to None instead of zero: optimizer.zero_grad(set_to_none=True) launches nothing. '
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
left join _place_call as far
    on far.source_id = late.source_id
    and far.rule = late.rule
    and far.place is not distinct from late.place
left join _place_sample as sampled
    on sampled.source_id = late.source_id
    and sampled.rule = late.rule
    and sampled.place is not distinct from late.place
where late.rule = 'launch_bound_range'
