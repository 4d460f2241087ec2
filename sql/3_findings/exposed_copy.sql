-- A row is one range whose copies or memsets run while the GPU does nothing else.
--
-- Copy ahead on a separate stream from pinned memory (non_blocking=True), keep tensors on the device, or copy less: token ids instead of embeddings, bfloat16 instead of float32.
--
-- Without torch: Copy ahead on a separate stream from pinned memory (cudaMemcpyAsync), keep data on the device, or copy less: indices instead of what they look up, 16 bits instead of 32.
--
-- Only with: from _exposed_place where activity = 'memory'
with
-- what FSDP does in its own ranges, most of what the host sends: it keeps its shards there
offloading as (
    select source_id
    from _exposed_place
    where activity = 'memory' and contains(largest, 'HtoD') and place <> '(launch not recorded)'
    group by source_id
    having 2 * sum(saving_ns) filter (regexp_matches(place, 'FSDP::(pre|post)_|fsdp')) > sum(saving_ns)
),
-- about as much goes to the host as comes from it
coming_back as (
    select source_id
    from memory_operation
    join gpu_op using (gpu_op_id)
    group by source_id
    having sum(bytes) filter (copy_kind = 'HtoD') / sum(bytes) filter (copy_kind = 'DtoH') between 0.5 and 2
),
-- nearly all asynchronous, from pinned memory, and on several streams or one without kernels: what is advised else.
-- A number that is read back (.item()) takes little, but keeps the CPU from copying ahead.
ahead as (
    select source_id
    from (
        select
            op.source_id,
            op.stream_id,
            op.end_ns - op.start_ns as copied_ns,
            'Pinned' in (coalesce(moved.src_kind, ''), coalesce(moved.dst_kind, '')) and contains(name.text, 'Async') as is_ahead,
            computing.source_id is not null as is_among_kernels
        from memory_operation as moved
        join gpu_op as op using (gpu_op_id)
        join api_call as call using (api_call_id)
        join name on name.name_id = call.name_id
        left join (from _stream_work where kernel_ns is not null) as computing
            on computing.source_id = op.source_id
            and computing.device_id is not distinct from op.device_id
            and computing.stream_id is not distinct from op.stream_id
        where moved.copy_kind in ('HtoD', 'DtoH')
    )
    group by source_id
    having 10 * coalesce(sum(copied_ns) filter (is_ahead), 0) >= 9 * sum(copied_ns)
        and (count(distinct stream_id) filter (is_ahead) > 1 or not bool_or(is_among_kernels and is_ahead))
)
select
    source_id,
    place,
    saving_ns,
    occurrence_cnt,
    format('{} of copies with nothing beside them, the most in {}', said_ns(saving_ns), largest)
    || if(
        slow.source_id is not null and 2 * pageable_frac > 1 and regexp_matches(largest, 'HtoD|DtoH'),
        format('; pageable memory at {:.1f} GB/s, where the link does {:.1f}', pageable_bytes_s / 1e9, link_bytes_s / 1e9), ''
    ) as evidence,
    case
        when source_id in (from offloading) and contains(largest, 'HtoD')
            and regexp_matches(place, 'FSDP::(pre|post)_|fsdp|^\(launch not recorded\)$') then
            'FSDP keeps its shards in host memory (CPUOffload) and copies them in each pass: without offload nothing is copied. '
            || 'If they do not fit: more GPUs, a base in 8 or 4 bits, larger batches, more of them between two optimizer steps.'
        when slow.source_id is not null and 2 * pageable_frac > 1 and regexp_matches(largest, 'HtoD|DtoH') then
            if(has_torch(source_id),
                'Pin host memory (DataLoader(pin_memory=True), tensor.pin_memory(), cudaMallocHost): the driver copies '
                || 'pageable memory twice. Then copy beside other work (non_blocking=True).',
                'Pin host memory (cudaMallocHost): the driver copies pageable memory twice. Then copy beside other '
                || 'work (cudaMemcpyAsync).')
        when source_id in (from ahead) and regexp_matches(largest, 'HtoD|DtoH') then
            'These copies are asynchronous, from pinned memory and on separate streams already. What could run beside them '
            || 'is launched too late, or waits for them: launch the work on one part and the copy of the next before the CPU '
            || 'waits for the GPU (.item(), synchronize), or copy less.'
        when starts_with(largest, 'memset') then
            'Zero less memory: '
            || if(has_torch(source_id),
                if(has_optimizer(source_id), 'zero_grad(set_to_none=True), ', '') || 'torch.empty where all of it is written.',
                'none that is fully overwritten before it is read.')
            || ' What a library zeroes inside its call stays.'
        when starts_with(largest, 'page copy') then
            'Pages move when they are touched: prefetch them beside other work (cudaMemPrefetchAsync), or keep what the GPU '
            || 'needs out of managed memory' || if(has_torch(source_id), ' (paged optimizers use it).', '.')
        when starts_with(largest, 'copy DtoD') then
            coalesce(data_parallel_advice(source_id), ddp_advice(source_id, place), if(has_torch(source_id),
                'Copy less on the device: views instead of clone(), contiguous() and cat(), tensors made where they are used.',
                'Copy less on the device: hand over buffers instead of copies of them, write results where they are used.'))
        when starts_with(largest, 'copy PtoP') then
            coalesce(data_parallel_advice(source_id), 'GPUs hand data to each other here: send it beside other work (on a separate stream, '
                || 'as soon as it is ready), in fewer bits, or less of it: keep on one GPU what exchanges most.')
        when starts_with(largest, 'copy DtoH') then
            'Read back less, and later: on a separate stream into pinned memory ('
            || if(has_torch(source_id), 'non_blocking=True', 'cudaMemcpyAsync')
            || case
                when source_id not in (from coming_back) then '), every N steps, written to disk by another thread.'
                when has_torch(source_id)
                    then '). About as much comes back: if the CPU computes on it (an optimizer or weights offloaded to it), send '
                        || '16 bits, send less often (gradient accumulation), or keep more on the GPU (8-bit states, more GPUs).'
                else '). About as much comes back: if the CPU computes on it, send fewer bits, or keep more of it on the GPU.'
            end
    end as advice
from _exposed_place
left join _slow_pageable as slow using (source_id)
where activity = 'memory'
