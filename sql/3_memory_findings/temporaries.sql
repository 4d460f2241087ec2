-- A row is one device at whose peak memory that lives shortly is more than the threshold memory_share_frac.
--
-- Look at where it is allocated: logits in 32 bits (compute the loss in chunks, or with a fused cross-entropy), dequantised weights (smaller blocks at a time), or copies between types and layouts.

select
    source_id,
    device,
    sum(live_bytes) as cost_bytes,
    coalesce(arg_max(path, live_bytes), arg_max(split_part(stack, ' < ', 1), live_bytes), 'outside all ranges') as place,
    format('{:.0f} MiB at the peak are short-lived; the largest: {}', sum(live_bytes) / 1048576, place) as evidence,
    if(
        regexp_matches(place, 'Optimizer\.step|torch/optim/') and not contains(place, 'zero_grad'),
        'The optimizer copies as much as it updates at once: fused=True updates in place, foreach=False one weight at a time.',
        null
    ) as advice
from memory_peak
where category in ('temporary', 'autograd_detail', 'quantisation_workspace')
group by source_id, device
having sum(live_bytes) > any_value(peak_bytes) * (select value from threshold where name = 'memory_share_frac')
