-- A row is one device at whose peak weights are more than the threshold memory_share_frac.
--
-- Quantize the frozen base (QLoRA: nf4, int8), load it in 16 bits, share one base among adapters (BatchLoRA), or spread it over devices.

with
-- a peak in the forward has no gradients
gradient as (
    select
        source_id,
        device,
        unnest([coalesce(start_ns, -9223372036854775807), coalesce(free_ns, 9223372036854775807)]) as time_ns,
        unnest([bytes, -bytes]) as bytes
    from _memory_block
    where category = 'gradient'
),
gradients as (
    select source_id, device, max(level_bytes) as most_bytes
    from (
        select source_id, device, sum(bytes) over (partition by source_id, device order by time_ns, bytes) as level_bytes
        from gradient
    )
    group by source_id, device
),
trained as (
    select
        source_id,
        device,
        any_value(gradients.most_bytes) as gradient_bytes,
        -- Adam's two moments of 32 bits each: of a frozen base it has none
        sum(live_bytes) filter (category = 'optimizer_state') as state_bytes,
        sum(live_bytes) filter (category = 'parameter') as weight_bytes,
        coalesce(sum(live_bytes) filter (category = 'parameter' and gathers_weights(stack)), 0) as gathered_bytes
    from memory_peak
    left join gradients using (source_id, device)
    group by source_id, device
)
select
    peak.source_id,
    peak.device,
    sum(peak.live_bytes) as cost_bytes,
    format('{:,.0f} MiB of weights at the peak', sum(peak.live_bytes) / 1048576) as evidence,
    case
        when 2 * any_value(trained.gathered_bytes) > sum(peak.live_bytes)
            then format(
                '{:,.0f} MiB of them FSDP gathers from all ranks: let it give them back after each forward '
                || '(reshard_after_forward=True), and wrap each block of layers by itself.',
                any_value(trained.gathered_bytes) / 1048576
            )
        when any_value(run.said['method']) = 'qlora' or any_value(run.said['quant']) <> 'none'
            then 'The base is quantized already, but not its embeddings and head, often the largest part: load these in 16 bits, '
                || 'share one base among adapters (BatchLoRA), or spread it over devices.'
        when any_value(run.said['method']) = 'full' or any_value(trained.gradient_bytes) >= 0.9 * any_value(trained.weight_bytes)
            or any_value(trained.state_bytes) >= 0.9 * any_value(trained.weight_bytes)
            then 'All of them are trained: train only a few beside a frozen base in 16, 8 or 4 bits (LoRA, QLoRA)'
                || if(any_value(run.said['parallel']) = 'fsdp', '.', ', or spread them over ranks (FSDP).')
        when peak.source_id not in (select source_id from _memory_learning)
            then 'Nothing is trained in this recording: load them in 16 bits, or quantized to 8 or 4, or spread them over devices.'
    end as advice
from memory_peak as peak
left join _run_facts as run using (source_id)
left join trained using (source_id, device)
where peak.category in ('parameter', 'adapter_parameter')
group by peak.source_id, peak.device
having sum(peak.live_bytes) > any_value(peak.peak_bytes) * (select value from threshold where name = 'memory_share_frac')
