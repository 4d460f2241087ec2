-- A row is one device at whose peak memory allocated in the recording for an unknown purpose is more than the threshold memory_share_frac.
--
-- Look at what keeps it there, and whether the rest of the run needs it. lorabench collect --profiler memory -- python train.py knows weights, gradients and states by name.

with held as (
    select
        source_id,
        device,
        sum(live_bytes) as cost_bytes,
        sum(allocation_cnt) as allocation_cnt,
        any_value(peak_bytes) as peak_bytes,
        arg_max({'path': path, 'stack': stack, 'allocation_cnt': allocation_cnt}, live_bytes) as largest
    from memory_peak
    where category = 'unknown' and path is distinct from '(before the recording)'
    group by source_id, device
)
select
    source_id,
    device,
    cost_bytes,
    case
        when largest['allocation_cnt'] is null
            then format('{:,.0f} MiB were allocated in the recording, which does not say where or what for', cost_bytes / 1048576)
        else format('{:,.0f} MiB in {:,} allocation{} of no known phase, kept for long or never freed; most of it: {}',
            cost_bytes / 1048576, allocation_cnt, if(allocation_cnt > 1, 's', ''),
            coalesce(largest['path'], place_in_stack(largest['stack']), 'outside all ranges'))
    end as evidence,
    case
        when largest['allocation_cnt'] is null
            then 'Record what allocates it: torch.cuda.memory._record_memory_history() and _dump_snapshot(), or lorabench collect '
                || '--profiler memory -- python train.py.'
        when source_id in (select source_id from memory_owner where is_exact)
            then 'It is no weight, gradient or state of the model that was watched: look at what keeps it there, as a second model or '
                || 'data that is held. Stacks say which line made it (collect --profiler memory --with-stack).'
    end as advice
from held
where cost_bytes > peak_bytes * (select value from threshold where name = 'memory_share_frac')
