-- A row is one device on which what is live grows from step to step.
--
-- Find what keeps it: a list of losses or outputs (keep loss.item(), or a detached copy on the CPU). Otherwise a hook or cache that is never emptied, a graph that outlives its step (retain_graph=True, create_graph=True), or a reference cycle (gc.collect()).

with
-- a loop may have several steps (of a generator and of a discriminator), of which one leaves something behind; what the first
-- step makes for all, as states of the optimizer, stays
change as (
    select
        turn.*,
        steps.step_cnt as of_cnt,
        before.time_ns as before_ns,
        turn.live_bytes - before.live_bytes as more_bytes
    from _memory_turn as turn
    cross join (select unnest(range(1, 5)) as step_cnt) as steps
    join _memory_turn as before
        on before.source_id = turn.source_id
        and before.process = turn.process
        and before.device = turn.device
        and before.turn = turn.turn - steps.step_cnt
    where turn.turn > 2 and (turn.turn - 2) % steps.step_cnt = 0
),
regular as (
    select
        source_id,
        process,
        device,
        of_cnt,
        count(*) as step_cnt,
        sum(more_bytes) as cost_bytes,
        median(more_bytes) as step_bytes,
        min(before_ns) as begin_ns,
        max(time_ns) as end_ns
    from change
    group by all
    -- what goes up and down by chance seldom goes up five times
    having step_cnt >= if(of_cnt = 1, 3, 5) and 4 * min(more_bytes) >= median(more_bytes) and max(more_bytes) <= 4 * median(more_bytes)
        and cost_bytes >= 1048576
),
grown as (
    select distinct on (source_id, process, device) *
    from regular
    order by source_id, process, device, of_cnt
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
    format('each of {} {} leaves {:,.1f} MiB behind, {:,.0f} in all; the largest: {}',
        arg_max(grown.step_cnt, grown.cost_bytes),
        if(max(grown.of_cnt) = 1, 'steps', format('rounds of {} steps', arg_max(grown.of_cnt, grown.cost_bytes))),
        arg_max(grown.step_bytes, grown.cost_bytes) / 1048576,
        max(grown.cost_bytes) / 1048576, coalesce(arg_max(kept.place, (grown.cost_bytes, kept.bytes)), 'not recorded')) as evidence
from grown
left join kept using (source_id, process, device)
group by grown.source_id, grown.device
