-- A row is a device of an input whose memory was recorded: its peak, and what most of it is for.
--
-- Of several processes on it that with the highest peak: peaks at different moments do not add up.
--
-- columns:
--   source_id       integer   the input
--   device          varchar   the device, 'cpu' or 'cuda:0'
--   peak_bytes      bigint    the peak, of a MiB or more
--   largest         varchar   what holds most then: 'activations', see memory_kind; NULL where none is known
--   largest_bytes   bigint    how much it holds
--   unknown_bytes   bigint    how much of it is unknown
--   before_bytes    bigint    how much of that was there before the recording
--   is_from_zero    boolean   whether the file counts from zero, and so without what was there before the recording
--   graph_bytes     bigint    what CUDA graphs hold besides at that moment, NULL if nothing
--   is_guessed      boolean   whether the category of some of that goes by lifetimes and phases
--   process_cnt     bigint    processes with memory of their own on it

with
held as (
    select
        source_id,
        device,
        coalesce(process_id, -1) as process,
        peak_bytes,
        coalesce(any_value(peak_ns), -9223372036854775807) as peak_ns,
        memory_kind(category) as kind,
        sum(live_bytes)::bigint as live_bytes,
        coalesce(sum(live_bytes) filter (path = '(before the recording)'), 0)::bigint as before_bytes,
        bool_or(basis = 'heuristic') as is_guessed
    from memory_peak
    where peak_bytes >= 1048576
    group by all
),
fullest as (
    select source_id, device, arg_min(process, (-peak_bytes, process)) as process, count(distinct process) as process_cnt
    from held
    group by source_id, device
)
select
    held.source_id,
    held.device,
    any_value(peak_bytes) as peak_bytes,
    arg_max(kind, live_bytes) filter (kind <> 'unknown') as largest,
    max(live_bytes) filter (kind <> 'unknown') as largest_bytes,
    coalesce(max(live_bytes) filter (kind = 'unknown'), 0) as unknown_bytes,
    coalesce(max(before_bytes) filter (kind = 'unknown'), 0) as before_bytes,
    any_value(zero.source_id) is not null and coalesce(max(before_bytes), 0) = 0 as is_from_zero,
    nullif(any_value(graphs.graph_bytes), 0) as graph_bytes,
    arg_max(is_guessed, live_bytes) filter (kind <> 'unknown') as is_guessed,
    any_value(fullest.process_cnt) as process_cnt
from held
join fullest on fullest.source_id = held.source_id and fullest.device = held.device and fullest.process = held.process
left join _memory_from_zero as zero on zero.source_id = held.source_id and zero.device = held.device
asof left join _memory_of_graphs as graphs
    on graphs.source_id = held.source_id and graphs.device = held.device and graphs.time_ns <= held.peak_ns
group by held.source_id, held.device
having largest is not null or held.device <> 'cpu'
