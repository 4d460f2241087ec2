-- A row is a step and how long the CPU was in each phase of it; NULL where nothing says.
--
-- By the names of the annotations in it on its thread, see phase_of: the outermost of a phase count. A forward within the
-- backward is recomputation and counts as backward; what is within the optimizer's range (its closure) counts as what it is, and so
-- does an optimizer within the backward, as of each parameter.
-- Where no name says forward or backward, operators do: those that backward nodes point to by sequence number, on the
-- step's thread, and the nodes on any thread of its process. Then it is the time from the first to the last of them, up to one
-- of the other kind or a named phase, with Python between them, and for the forward an annotation around it that holds nothing else
-- (the model's own: layers that are frozen have no nodes). Operators without a node (a copy to the device) have the number of
-- the next one that has: of those with one number the last counts, and what is around it.
--
-- columns:
--   source_id      integer   the input
--   step_id        bigint    the step, as _step has it
--   data_ns        bigint    time in getting input, NULL where no name says
--   h2d_ns         bigint    in moving it to the device, NULL likewise
--   forward_ns     bigint    in the forward, NULL where neither names nor operators say
--   backward_ns    bigint    in the backward, NULL likewise
--   optimizer_ns   bigint    in the optimizer, NULL where no name says

with recursive
step as materialized (select * from _step),
annotated as (
    select range.source_id, range.range_id, range.thread_id, range.start_ns, range.end_ns, said.phase
    from range
    join _phase_name as said on said.name_id = range.text_id
    where range.kind = 'annotation' and said.phase in ('data', 'h2d', 'forward', 'backward', 'optimizer')
),
named as (
    select
        step.source_id,
        step.step_id,
        annotated.phase,
        annotated.range_id,
        annotated.start_ns,
        least(annotated.end_ns, step.end_ns) as end_ns
    from annotated
    asof join step
        on step.source_id = annotated.source_id
        and step.thread_id = annotated.thread_id
        and step.start_ns <= annotated.start_ns
    where annotated.start_ns < step.end_ns and annotated.range_id is distinct from step.range_id
),
nested as (
    select
        *,
        end_ns - start_ns as wall_ns,
        coalesce(end_ns <= max(end_ns) over same_before, false)
        or phase = 'forward' and coalesce(end_ns <= max(if(phase = 'backward', end_ns, null)) over before, false) as is_inner,
        phase <> 'optimizer'
        and coalesce(end_ns <= max(if(phase = 'optimizer', end_ns, null)) over before, false) as is_in_optimizer,
        phase = 'optimizer' and coalesce(end_ns <= max(if(phase = 'backward', end_ns, null)) over before, false) as is_in_backward
    from named
    window
        same_before as (
            partition by source_id, step_id, phase order by start_ns, end_ns desc, range_id
            rows between unbounded preceding and 1 preceding
        ),
        before as (
            partition by source_id, step_id order by start_ns, end_ns desc, range_id rows between unbounded preceding and 1 preceding
        )
),
by_name as (
    select
        source_id,
        step_id,
        sum(wall_ns) filter (phase = 'data')::bigint as data_ns,
        sum(wall_ns) filter (phase = 'h2d')::bigint as h2d_ns,
        sum(wall_ns) filter (phase = 'forward')::bigint as forward_ns,
        (
            sum(wall_ns) filter (phase = 'backward') - coalesce(sum(wall_ns) filter (is_in_backward), 0)
        )::bigint as backward_ns,
        (
            sum(wall_ns) filter (phase = 'optimizer') - coalesce(sum(wall_ns) filter (is_in_optimizer), 0)
        )::bigint as optimizer_ns
    from nested
    where not is_inner
    group by source_id, step_id
),
unnamed as (
    select distinct step.source_id
    from step
    left join by_name using (source_id, step_id)
    where by_name.forward_ns is null or by_name.backward_ns is null
),
node as (
    from _backward_node
    where source_id in (from unnamed)
),
operator as (
    select source_id, process_id, thread_id, range_id, 'backward' as phase, start_ns, end_ns
    from node
    union all
    select range.source_id, thread.process_id, range.thread_id, range.range_id, 'forward', range.start_ns, range.end_ns
    from range
    join thread using (source_id, thread_id)
    semi join node
        on node.source_id = range.source_id
        and node.process_id = thread.process_id
        and node.sequence_number = range.sequence_number
    where range.kind = 'operator' and not range.is_backward
    qualify range.end_ns >= max(range.start_ns) over (
        partition by range.source_id, thread.process_id, range.thread_id, range.sequence_number
    )
),
of_step as (
    select
        step.source_id,
        step.step_id,
        step.range_id as step_range_id,
        operator.phase,
        operator.range_id,
        operator.start_ns,
        least(operator.end_ns, step.end_ns) as end_ns,
        step.end_ns as step_end_ns
    from operator
    asof join step
        on step.source_id = operator.source_id
        and step.process_id = operator.process_id
        and step.start_ns <= operator.start_ns
    where operator.start_ns < step.end_ns and (operator.phase = 'backward' or operator.thread_id = step.thread_id)
    -- what has a name is neither
    union all
    select named.source_id, named.step_id, null, named.phase, named.range_id, named.start_ns, named.end_ns, null
    from nested as named
    semi join unnamed using (source_id)
    where not named.is_inner and named.phase not in ('forward', 'backward')
),
-- what is computed again within the backward is the backward's
outside as (
    from of_step
    qualify phase <> 'forward' or start_ns >= coalesce(
        max(if(phase = 'backward', end_ns, null)) over (
            partition by source_id, step_id order by start_ns, end_ns desc, phase rows between unbounded preceding and 1 preceding
        ), start_ns)
),
turned as (
    select *, phase is distinct from lag(phase) over (partition by source_id, step_id order by start_ns, end_ns desc, phase) as is_turn
    from outside
),
numbered as (
    select
        *,
        count(*) filter (is_turn) over (
            partition by source_id, step_id order by start_ns, end_ns desc, phase rows unbounded preceding
        ) as turn
    from turned
),
stretch as (
    select
        source_id,
        step_id,
        turn,
        any_value(phase) as phase,
        arg_min(range_id, start_ns) as first_id,
        any_value(step_range_id) as step_range_id,
        min(start_ns) as start_ns,
        max(end_ns) as end_ns,
        coalesce(lag(max(end_ns)) over by_turn, 0) as after_ns,
        coalesce(lead(min(start_ns)) over by_turn, any_value(step_end_ns)) as before_ns
    from numbered
    group by source_id, step_id, turn
    window by_turn as (partition by source_id, step_id order by turn)
),
-- the model's own range, with all that it holds of the forward: what is frozen has no nodes
climb as (
    select stretch.* exclude (phase, first_id), range.parent_id
    from stretch
    join range on range.range_id = stretch.first_id
    where stretch.phase = 'forward'
    union all
    select
        climb.* exclude parent_id replace (
            if(range.kind = 'annotation', range.start_ns, climb.start_ns) as start_ns,
            if(range.kind = 'annotation', greatest(range.end_ns, climb.end_ns), climb.end_ns) as end_ns
        ),
        range.parent_id
    from climb
    join range on range.range_id = climb.parent_id
    where range.start_ns >= climb.after_ns
        and range.end_ns <= climb.before_ns
        and range.range_id is distinct from climb.step_range_id
),
widened as (
    select source_id, step_id, turn, min(start_ns) as start_ns, max(end_ns) as end_ns
    from climb
    group by source_id, step_id, turn
),
by_operator as (
    select
        stretch.source_id,
        stretch.step_id,
        sum(widened.end_ns - widened.start_ns)::bigint as forward_ns,
        sum(stretch.end_ns - stretch.start_ns) filter (stretch.phase = 'backward')::bigint as backward_ns
    from stretch
    left join widened using (source_id, step_id, turn)
    where stretch.phase in ('forward', 'backward')
    group by stretch.source_id, stretch.step_id
)
select
    step.source_id,
    step.step_id,
    by_name.data_ns,
    by_name.h2d_ns,
    coalesce(by_name.forward_ns, by_operator.forward_ns) as forward_ns,
    coalesce(by_name.backward_ns, by_operator.backward_ns) as backward_ns,
    by_name.optimizer_ns
from step
left join by_name using (source_id, step_id)
left join by_operator using (source_id, step_id)
