-- A row is the idle gaps behind the waits of one rule in the ranges of one path.
--
-- columns:
--   source_id        integer   the input
--   rule             varchar   'synchronisation', 'blocking_copy' or 'pageable_async_copy'
--   place            varchar   name path of the range that waits, NULL outside all ranges
--   saving_ns        double    what the input would save without them, at most
--   occurrence_cnt   bigint    gaps
--   evidence         varchar   how often which calls, and how long the GPU is idle then
--   own_advice       varchar   what to do about what most of it is behind: copies to the host or within the device, small ones to the device, memsets, or what the calls wait for; else NULL

with
-- the copy that a gap begins behind
behind as (
    select
        gap.gpu_op_id,
        any_value(moved.copy_kind) = 'DtoH' as is_back,
        any_value(moved.copy_kind) in ('DtoD', 'PtoP') as is_within,
        -- as of a batch of tokens, or of numbers that Python has; NULL for others
        if(any_value(moved.copy_kind) = 'HtoD' and max(moved.bytes) <= 65536, max(moved.bytes), null) as few_bytes
    from (from _judged_gap where rule in ('blocking_copy', 'pageable_async_copy', 'synchronisation')) as gap
    join (
        select op.source_id, op.device_id, op.end_ns, moved.copy_kind, moved.bytes
        from memory_operation as moved
        join gpu_op as op using (gpu_op_id)
        where moved.copy_kind in ('DtoH', 'HtoD', 'DtoD', 'PtoP')
    ) as moved
        on moved.source_id = gap.source_id
        and moved.device_id is not distinct from gap.device_id
        and moved.end_ns = gap.start_ns
    group by gap.gpu_op_id
),
-- by path and call, of which there are few, before their names are looked up
called as (
    select
        gap.source_id,
        gap.rule,
        gap.path_id,
        gap.waited_name_id,
        sum(gap.saving_ns) as saving_ns,
        sum(gap.saving_ns) filter (behind.is_back) as back_ns,
        sum(gap.saving_ns) filter (behind.is_within) as within_ns,
        sum(gap.saving_ns) filter (behind.few_bytes is not null) as few_ns,
        sum(behind.few_bytes) as few_bytes,
        count(behind.few_bytes) as few_cnt
    from _judged_gap as gap
    left join behind using (gpu_op_id)
    where gap.rule in ('synchronisation', 'blocking_copy', 'pageable_async_copy')
    group by all
),
by_kind as (
    select
        called.source_id,
        called.rule,
        called.path_id,
        wait_kind_of(name.text) as kind,
        list(distinct name.text) as names,
        arg_max(name.text, (called.saving_ns, name.text)) as main_call,
        sum(called.saving_ns) as saving_ns,
        sum(called.back_ns) as back_ns,
        sum(called.within_ns) as within_ns,
        sum(called.few_ns) as few_ns,
        sum(called.few_bytes) as few_bytes,
        sum(called.few_cnt) as few_cnt
    from called
    left join name on name.name_id = called.waited_name_id
    group by all
),
waited as (
    select
        by_kind.source_id,
        by_kind.rule,
        range_path.path as place,
        array_to_string(list_sort(flatten(list(by_kind.names))), ', ') as calls,
        arg_max(by_kind.main_call, (by_kind.saving_ns, by_kind.main_call)) as main_call,
        coalesce(2 * sum(by_kind.back_ns) > sum(by_kind.saving_ns), false) as reads_back,
        coalesce(2 * sum(by_kind.within_ns) > sum(by_kind.saving_ns), false) as is_within,
        if(2 * sum(by_kind.few_ns) > sum(by_kind.saving_ns), sum(by_kind.few_bytes) / sum(by_kind.few_cnt), null) as few_bytes,
        -- what the calls of more than half of it wait for
        if(
            2 * max(by_kind.saving_ns) > sum(by_kind.saving_ns),
            arg_max(coalesce(by_kind.kind, ''), by_kind.saving_ns),
            null
        ) as waits_for
    from by_kind
    left join range_path using (path_id)
    group by by_kind.source_id, by_kind.rule, range_path.path
)
select
    waited.source_id,
    waited.rule,
    waited.place,
    blamed.saving_ns,
    blamed.occurrence_cnt,
    format('{} of {}, then the GPU is idle for {}', if(blamed.occurrence_cnt = 1, 'a call', format('{:,} calls', blamed.occurrence_cnt)),
        waited.calls, said_lengths(blamed.occurrence_cnt, blamed.mean_ns, blamed.longest_ns, blamed.long_cnt, blamed.long_ns))
    || if(
        cpu.rule is null,
        '',
        if(blamed.occurrence_cnt = 1, '; the CPU is then in ', '; in the longest gap the CPU is in ')
        || if(cpu.is_partly, 'no range or CUDA call for most of it', cpu.cpu_in)
    )
    || coalesce(format('; called by {}', caller.stack), '') as evidence,
    case
        when waited.reads_back
            and regexp_matches(waited.place, '(?i)optimi[sz]er')
            and not cpu.is_partly and cpu.cpu_kind in ('operator', 'several', 'many')
            then 'The CPU computes on what was copied, as where an optimizer is offloaded to it: update the weights less often (gradient '
                || 'accumulation), or keep more of the states on the GPU (in 8 bits, or spread over more of them).'
        when waited.reads_back
            then 'The CPU reads a result back and waits for it: keep it on the device, read it every N steps, or copy it to pinned memory '
                || if(has_torch(waited.source_id),
                    '(non_blocking=True) and read it a step later. In PyTorch .item(), .cpu(), .tolist(), nonzero and boolean '
                    || 'masks do.',
                    'asynchronously and read it a step later.')
        when waited.waits_for = 'memset'
            then 'Setting memory blocks here, and nothing needs it done: ' || if(
                has_torch(waited.source_id), 'cudaMemsetAsync in place of cudaMemset, or PyTorch''s zero_() and fill_().',
                'cudaMemsetAsync in place of cudaMemset.')
        when waited.is_within and waited.rule <> 'synchronisation'
            then 'A copy within the GPU blocks here, and nothing on the CPU needs it done: cudaMemcpyAsync in place of cudaMemcpy'
                || if(has_torch(waited.source_id), ', or PyTorch''s copy_().', '.')
        when waited.few_bytes is not null and (waited.rule <> 'synchronisation' or waited.waits_for = 'stream')
            then format('Small copies ({:,.0f} bytes on average): numbers that the program moves again and again (indices, masks, '
                    || 'scales) should be moved once and stay on the device', waited.few_bytes)
                || if(has_torch(waited.source_id),
                    ' (torch.tensor(…, device=…) beforehand, register_buffer); a batch is pinned (DataLoader(pin_memory=True)) and '
                    || 'copied with non_blocking=True.',
                    '; copy input asynchronously from pinned memory.')
        when waited.waits_for = 'device'
            then format('Leave it out, or do it every N steps: {}, a timer around a step, or the end of a profile.',
                if(has_torch(waited.source_id), 'torch.cuda.synchronize()', 'a synchronize() of the code'))
        when waited.waits_for = 'event'
            then 'The CPU waits for an event: that of a timer (read it some steps later), of a copy that is used (use it later), or '
                || if(has_torch(waited.source_id),
                    'of FSDP, which gathers no more than it may hold (limit_all_gathers, larger blocks).',
                    'of a buffer that is reused (use more buffers).')
        when waited.waits_for = 'memory' then keep_memory_advice(has_torch(waited.source_id))
        when waited.waits_for = 'host memory'
            then 'Host memory is pinned or freed there, and that waits for the GPU: pin buffers once, before what '
                || 'counts, and keep them.'
        when waited.waits_for = 'module'
            then 'GPU code is unloaded there, and that waits for the GPU: keep modules loaded while the program runs.'
    end as own_advice
from waited
join _blamed_place as blamed
    on blamed.source_id = waited.source_id
    and blamed.rule = waited.rule
    and blamed.place is not distinct from waited.place
left join _place_cpu as cpu
    on cpu.source_id = waited.source_id
    and cpu.rule = waited.rule
    and cpu.place is not distinct from waited.place
left join _place_caller as caller
    on caller.source_id = waited.source_id
    and caller.place is not distinct from waited.place
    and caller.api_name = waited.main_call
