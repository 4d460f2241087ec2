-- A row is a range path and what was allocated in it and still live when a device's allocated memory was highest.
--
-- The path is that of the innermost annotation open on the allocating thread, so it says which module, which part of a
-- LoRA layer and which phase the memory comes from, not what it is for. What was allocated before the recording has a
-- row of its own: with the others it adds up to the peak exactly (nsys has no such row: its totals begin at zero).
--
-- columns:
--   device           varchar   'cuda:0', 'cpu' …
--   path             varchar   range path, '(before the recording)', or NULL outside all ranges
--   live_bytes       bigint    live at the peak
--   live_frac        double    live_bytes / the peak
--   allocation_cnt   bigint    allocations, NULL for those before the recording
--   largest_bytes    bigint    the largest of them
--   peak_bytes       bigint    the peak: allocated in total
--   peak_ns          bigint    when, on the clock of the input
--   process_id       bigint    the process
--   source_id        integer   the input, see trace_info
--   rank             integer   rank of the input, NULL where it does not say

with recursive
peak as (
    select
        source_id,
        process_id,
        device,
        arg_min(time_ns, (-allocated_bytes, time_ns)) as peak_ns,
        max(allocated_bytes) as peak_bytes
    from _memory_level
    group by all
),
live as (
    select allocation.*
    from _allocation as allocation
    join peak
        on peak.source_id = allocation.source_id
        and peak.process_id is not distinct from allocation.process_id
        and peak.device = allocation.device
        and allocation.start_ns <= peak.peak_ns
        and coalesce(allocation.free_ns > peak.peak_ns, true)
),
begun as (
    select source_id, thread_id, start_ns, arg_max(range_id, (depth, range_id)) as range_id
    from range
    where kind = 'annotation'
    group by source_id, thread_id, start_ns
),
climb as (
    select live.allocation_id, live.start_ns as at_ns, begun.range_id
    from live
    asof join begun
        on begun.source_id = live.source_id
        and begun.thread_id = live.thread_id
        and begun.start_ns <= live.start_ns
    union all
    select climb.allocation_id, climb.at_ns, range.parent_id
    from climb
    join range using (range_id)
    where (range.end_ns < climb.at_ns or range.kind <> 'annotation') and range.parent_id is not null
),
placed as (
    select climb.allocation_id, range_path.path
    from climb
    join range using (range_id)
    join range_path using (path_id)
    where range.end_ns >= climb.at_ns and range.kind = 'annotation'
),
known as (
    select
        live.source_id,
        live.process_id,
        live.device,
        placed.path,
        sum(live.bytes)::bigint as live_bytes,
        count(*) as allocation_cnt,
        max(live.bytes) as largest_bytes
    from live
    left join placed using (allocation_id)
    group by all
),
everything as (
    from known
    union all by name
    select
        peak.source_id,
        peak.process_id,
        peak.device,
        '(before the recording)' as path,
        (peak.peak_bytes - coalesce(sum(known.live_bytes), 0))::bigint as live_bytes
    from peak
    left join known
        on known.source_id = peak.source_id
        and known.process_id is not distinct from peak.process_id
        and known.device = peak.device
    group by peak.source_id, peak.process_id, peak.device, peak.peak_bytes
)
select
    everything.device,
    everything.path,
    everything.live_bytes,
    everything.live_bytes / nullif(peak.peak_bytes, 0) as live_frac,
    everything.allocation_cnt,
    everything.largest_bytes,
    peak.peak_bytes,
    peak.peak_ns,
    everything.process_id,
    everything.source_id,
    source.rank
from everything
join peak
    on peak.source_id = everything.source_id
    and peak.process_id is not distinct from everything.process_id
    and peak.device = everything.device
join source on source.source_id = everything.source_id
where everything.live_bytes <> 0
order by everything.source_id, everything.device, everything.process_id, everything.live_bytes desc, everything.path
