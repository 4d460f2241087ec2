-- A row is the idle gaps behind the waits of one rule in the ranges of one path.
--
-- columns:
--   source_id        integer   the input
--   rule             varchar   'synchronisation', 'blocking_copy' or 'pageable_async_copy'
--   place            varchar   name path of the range that waits, NULL outside all ranges
--   saving_ns        double    what the input would save without them, at most
--   occurrence_cnt   bigint    gaps
--   evidence         varchar   how often which calls, and how long the GPU is idle then
--   calls            varchar   their names
--   own_advice       varchar   what to do where most of it is behind copies to the host, behind small ones to the device, or behind
--                    copies and memsets within the device, else NULL

with
-- the copy that a gap begins behind
behind as (
    select
        gap.gpu_op_id,
        any_value(moved.copy_kind) = 'DtoH' as is_back,
        any_value(moved.copy_kind) in ('DtoD', 'PtoP') as is_within,
        -- as of a batch of tokens, or of numbers that Python has; NULL for others
        if(any_value(moved.copy_kind) = 'HtoD' and max(moved.bytes) <= 65536, max(moved.bytes), null) as few_bytes
    from (from _judged_gap where rule in ('blocking_copy', 'pageable_async_copy')) as gap
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
waited as (
    select
        gap.source_id,
        gap.rule,
        range_path.path as place,
        string_agg(distinct name.text, ', ' order by name.text) as calls,
        coalesce(2 * sum(gap.saving_ns) filter (behind.is_back) > sum(gap.saving_ns), false) as reads_back,
        coalesce(2 * sum(gap.saving_ns) filter (behind.is_within) > sum(gap.saving_ns), false) as is_within,
        coalesce(2 * sum(gap.saving_ns) filter (contains(lower(name.text), 'memset')) > sum(gap.saving_ns), false) as is_set,
        if(2 * sum(gap.saving_ns) filter (behind.few_bytes is not null) > sum(gap.saving_ns), avg(behind.few_bytes), null) as few_bytes
    from _judged_gap as gap
    left join behind using (gpu_op_id)
    left join name on name.name_id = gap.waited_name_id
    left join range_path using (path_id)
    where gap.rule in ('synchronisation', 'blocking_copy', 'pageable_async_copy')
    group by gap.source_id, gap.rule, range_path.path
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
    ) as evidence,
    waited.calls,
    case
        when waited.reads_back
            then 'The CPU reads a result back and waits for it: keep it on the device, read it every N steps, or copy it to pinned memory '
                || if(has_torch(waited.source_id),
                    '(non_blocking=True) and look at it a step later. In PyTorch .item(), .cpu(), .tolist(), nonzero and boolean '
                    || 'masks do.',
                    'asynchronously and look at it a step later.')
        when waited.is_set
            then 'Setting memory blocks here, and nothing needs its end: ' || if(
                has_torch(waited.source_id), 'cudaMemsetAsync in place of cudaMemset, or PyTorch''s zero_() and fill_().',
                'cudaMemsetAsync in place of cudaMemset.')
        when waited.is_within
            then 'A copy within the GPU blocks here, and nothing on the CPU needs its end: cudaMemcpyAsync in place of cudaMemcpy'
                || if(has_torch(waited.source_id), ', or PyTorch''s copy_().', '.')
        when waited.few_bytes is not null
            then format('Small copies ({:,.0f} bytes on average): numbers of the program that it moves again and again (indices, masks, '
                    || 'scales) are moved once and stay on the device', waited.few_bytes)
                || if(has_torch(waited.source_id),
                    ' (torch.tensor(…, device=…) beforehand, register_buffer); a batch is pinned (DataLoader(pin_memory=True)) and '
                    || 'copied with non_blocking=True.',
                    '; input is copied asynchronously from pinned memory.')
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
