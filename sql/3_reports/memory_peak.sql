-- A row is a range path and a category, and what was allocated in it and still live when a device's memory was highest.
--
-- The path is that of the innermost annotation open on the allocating thread: which module, which part of a LoRA layer
-- and which phase the memory comes from; the category says what it is for (see memory_by_category). Memory from before
-- the recording of which nothing is known is 'unknown', with path '(before the recording)'; what came later and cannot be
-- followed, as where addresses were not recorded, is 'unknown' without a path. All rows add up to the peak exactly (nsys
-- has none from before: its totals begin at zero).
--
-- columns:
--   device           varchar   'cuda:0', 'cpu' …
--   category         varchar   what it is for, see memory_by_category
--   path             varchar   range path, '(before the recording)', or NULL outside all ranges
--   adapter          varchar   the adapter that it belongs to, NULL for the base
--   stack            varchar   the Python frames that asked for it, innermost first, NULL if not recorded
--   live_bytes       bigint    live at the peak
--   live_frac        double    live_bytes / the peak
--   allocation_cnt   bigint    allocations, NULL for unknown ones that nobody saw come
--   largest_bytes    bigint    the largest of them
--   basis            varchar   'exact' or 'heuristic': how the category was found
--   peak_bytes       bigint    the peak: live in total
--   peak_ns          bigint    when, on the clock of the input; NULL if not recorded
--   process_id       bigint    the process
--   source_id        integer   the input, see trace_info
--   rank             integer   rank of the input, NULL if not recorded

with
peak as (
    select
        source_id,
        coalesce(process_id, -1) as process,
        device,
        arg_min(time_ns, (-live_bytes, time_ns)) as peak_ns,
        max(live_bytes) as peak_bytes
    from _memory_level
    group by all
),
-- no more than this can be from before the recording; the rest nobody has seen come, as where addresses were not recorded
began as (
    select
        source_id,
        coalesce(process_id, -1) as process,
        device,
        coalesce(arg_min(live_bytes - bytes, (time_ns, bytes)) filter (not is_before), max(live_bytes)) as live_bytes
    from _memory_level
    group by all
),
adapter_path as (
    select path_id, any_value(adapter) as adapter
    from _lora_path
    where adapter is not null
    group by path_id
),
known as (
    select
        peak.source_id,
        peak.process,
        peak.device,
        if(block.start_ns is null, '(before the recording)', range_path.path) as path,
        block.category,
        block.basis,
        coalesce(block.adapter, adapter_path.adapter) as adapter,
        stack.text as stack,
        sum(block.bytes)::bigint as live_bytes,
        count(*) as allocation_cnt,
        max(block.bytes) as largest_bytes
    from _memory_block as block
    join peak
        on peak.source_id = block.source_id
        and peak.process = coalesce(block.process_id, -1)
        and peak.device = block.device
        and coalesce(block.start_ns <= peak.peak_ns, true)
        and coalesce(block.free_ns > peak.peak_ns, true)
    left join range_path using (path_id)
    left join adapter_path using (path_id)
    left join name as stack on stack.name_id = block.stack_id
    group by all
),
unknown as (
    select
        peak.source_id,
        peak.process,
        peak.device,
        peak.peak_bytes - coalesce(sum(known.live_bytes), 0) as rest_bytes,
        greatest(0, least(rest_bytes, any_value(began.live_bytes))) as before_bytes
    from peak
    join began using (source_id, process, device)
    left join known using (source_id, process, device)
    group by peak.source_id, peak.process, peak.device, peak.peak_bytes
),
everything as (
    from known
    union all by name
    select source_id, process, device, '(before the recording)' as path, 'unknown' as category, 'heuristic' as basis,
        before_bytes::bigint as live_bytes
    from unknown
    union all by name
    select source_id, process, device, 'unknown' as category, 'heuristic' as basis,
        (rest_bytes - before_bytes)::bigint as live_bytes
    from unknown
)
select
    everything.device,
    everything.category,
    everything.path,
    everything.adapter,
    everything.stack,
    everything.live_bytes,
    everything.live_bytes / nullif(peak.peak_bytes, 0) as live_frac,
    everything.allocation_cnt,
    everything.largest_bytes,
    everything.basis,
    peak.peak_bytes,
    if(source.is_timed, peak.peak_ns, null) as peak_ns,
    nullif(everything.process, -1) as process_id,
    everything.source_id,
    source.rank
from everything
join peak
    on peak.source_id = everything.source_id
    and peak.process = everything.process
    and peak.device = everything.device
join source on source.source_id = everything.source_id
where everything.live_bytes <> 0
order by everything.source_id, everything.device, everything.process, everything.live_bytes desc, everything.path,
    everything.category, everything.adapter, everything.stack
