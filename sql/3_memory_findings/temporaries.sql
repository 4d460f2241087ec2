-- A row is one device at whose peak memory that lives shortly is more than the threshold memory_share_frac.
--
-- Look at where it is allocated: logits in 32 bits (compute the loss in chunks, or with a fused cross-entropy), dequantised weights (smaller blocks at a time), or copies between types and layouts.

with
-- a loss is computed where something is learned
learning as (select distinct source_id from _memory_event_phase where phase_of_step(phase) in ('backward', 'optimizer'))
select
    source_id,
    device,
    sum(live_bytes) as cost_bytes,
    coalesce(arg_max(path, live_bytes), arg_max(split_part(stack, ' < ', 1), live_bytes), 'outside all ranges') as place,
    format('{:,.0f} MiB at the peak are short-lived; the largest: {}', sum(live_bytes) / 1048576, place) as evidence,
    case
        when regexp_matches(place, 'Optimizer\.step|torch/optim/') and not contains(place, 'zero_grad')
            then 'The optimizer copies as much as it updates at once: fused=True updates in place, foreach=False one weight at a '
                || 'time.'
        when source_id not in (from learning)
            then 'Look at where it is allocated: workspaces of libraries (CUBLAS_WORKSPACE_CONFIG makes that of matrix products '
                || 'smaller), copies between types and layouts, or dequantised weights.'
    end as advice
from memory_peak
where category in ('temporary', 'autograd_detail', 'quantisation_workspace')
group by source_id, device
having sum(live_bytes) > any_value(peak_bytes) * (select value from threshold where name = 'memory_share_frac')
