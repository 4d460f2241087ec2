-- A row is one device on which what is live grows from step to step.
--
-- Find what keeps it: a list of losses or outputs (keep loss.item(), or a detached copy on the CPU). Else a hook or cache that is never emptied, a graph that outlives its step (retain_graph=True, create_graph=True), or a cycle of references (gc.collect()).

with
change as (
    select
        *,
        lag(time_ns) over of_device as before_ns,
        live_bytes - lag(live_bytes) over of_device as more_bytes
    from _memory_turn
    window of_device as (partition by source_id, process, device order by turn)
),
-- what the first step makes for all, as states of the optimizer, stays
grown as (
    select
        source_id,
        process,
        device,
        count(*) as step_cnt,
        sum(more_bytes) as cost_bytes,
        median(more_bytes) as step_bytes,
        min(before_ns) as begin_ns,
        max(time_ns) as end_ns
    from change
    where turn > 2
    group by all
    having step_cnt >= 3 and 4 * min(more_bytes) >= median(more_bytes) and max(more_bytes) <= 4 * median(more_bytes)
        and cost_bytes >= 1048576
),
kept as (
    select
        grown.source_id,
        grown.process,
        grown.device,
        coalesce(range_path.path, place_in_stack(stack.text), 'outside all ranges') as place,
        sum(block.bytes) as bytes
    from grown
    join _memory_block as block
        on block.source_id = grown.source_id
        and coalesce(block.process_id, -1) = grown.process
        and block.device = grown.device
        and block.start_ns >= grown.begin_ns and block.start_ns < grown.end_ns
        and coalesce(block.free_ns >= grown.end_ns, true)
    left join range_path using (path_id)
    left join name as stack on stack.name_id = block.stack_id
    group by all
)
select
    grown.source_id,
    grown.device,
    max(grown.cost_bytes)::bigint as cost_bytes,
    format('each of {} steps leaves {:,.1f} MiB behind, {:,.0f} in all; the largest: {}',
        arg_max(grown.step_cnt, grown.cost_bytes), arg_max(grown.step_bytes, grown.cost_bytes) / 1048576,
        max(grown.cost_bytes) / 1048576, coalesce(arg_max(kept.place, (grown.cost_bytes, kept.bytes)), 'not recorded')) as evidence
from grown
left join kept using (source_id, process, device)
group by grown.source_id, grown.device
