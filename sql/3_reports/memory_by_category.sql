-- A row is a change of how much memory of one category is allocated on a device.
--
-- At any moment the last rows of all categories add up to what is live, exactly (memory_timeline.live_bytes): memory that nothing is known of,
-- as what was allocated before the recording, is 'unknown'. Categories are those of torch's memory timeline, adapters
-- and the workspaces of quantized weights apart. Runs of lorabench collect have a ledger of what each storage is for;
-- without one, categories go by phases, operators and lifetimes, and count as heuristic.
--
-- columns:
--   device            varchar   'cuda:0', 'cpu' …
--   category          varchar   parameter, adapter_parameter, gradient, optimizer_state, input, activation, forward_result, temporary, autograd_detail, quantisation_workspace or unknown
--   time_ns           bigint    when, from the input's first event of memory; NULL if not recorded
--   event_number      bigint    number of the event in a snapshot without times, else NULL
--   live_bytes        bigint    allocated from then on
--   heuristic_bytes   bigint    of these, those whose category was guessed
--   process_id        bigint    the process
--   source_id         integer   the input, see trace_info
--   rank              integer   rank of the input, NULL if not recorded

with
began as (
    select source_id, min(time_ns) as time_ns from memory_event group by source_id
),
change as (
    select
        block.source_id,
        coalesce(block.process_id, -1) as process,
        block.device,
        block.category,
        coalesce(block.start_ns, began.time_ns) as time_ns,
        block.bytes,
        if(block.basis = 'heuristic', block.bytes, 0) as heuristic_bytes
    from _memory_block as block
    join began using (source_id)
    where block.category <> 'unknown'
    union all
    select
        source_id, coalesce(process_id, -1), device, category, free_ns, -bytes, if(basis = 'heuristic', -bytes, 0)
    from _memory_block
    where free_ns is not null and category <> 'unknown'
),
net as (
    select
        source_id, process, device, category, time_ns, sum(bytes) as bytes, sum(heuristic_bytes) as heuristic_bytes
    from change
    group by all
),
known as (
    select
        source_id,
        process,
        device,
        category,
        time_ns,
        sum(bytes) over so_far as live_bytes,
        sum(heuristic_bytes) over so_far as heuristic_bytes
    from net
    window so_far as (
        partition by source_id, process, device, category order by time_ns rows unbounded preceding
    )
),
total as (
    select
        source_id,
        process,
        device,
        time_ns,
        sum(sum(bytes)) over (
            partition by source_id, process, device order by time_ns rows unbounded preceding
        ) as known_bytes
    from net
    group by source_id, process, device, time_ns
),
level as (from _memory_moment),
rest as (
    select
        level.source_id,
        level.process,
        level.device,
        level.time_ns,
        level.live_bytes - coalesce(total.known_bytes, 0) as live_bytes
    from level
    asof left join total
        on total.source_id = level.source_id
        and total.process = level.process
        and total.device = level.device
        and total.time_ns <= level.time_ns
),
every as (
    select source_id, process, device, category, time_ns, live_bytes, heuristic_bytes
    from known
    union all
    select source_id, process, device, 'unknown', time_ns, live_bytes, live_bytes
    from rest
    qualify live_bytes is distinct from coalesce(
        lag(live_bytes) over (partition by source_id, process, device order by time_ns), 0
    )
)
select
    every.device,
    every.category,
    if(source.is_timed, every.time_ns - began.time_ns, null) as time_ns,
    if(source.is_timed, null, (every.time_ns - began.time_ns) // 1000) as event_number,
    every.live_bytes::bigint as live_bytes,
    every.heuristic_bytes::bigint as heuristic_bytes,
    nullif(every.process, -1) as process_id,
    every.source_id,
    source.rank
from every
join began using (source_id)
join source using (source_id)
order by every.source_id, every.device, every.process, every.time_ns, every.category
