-- A row is a step and how long the CPU was in each phase of it; NULL where nothing says.
--
-- By the names of the annotations in it on its thread, see phase_of: the outermost of a phase count. A forward within the
-- backward is recomputation and counts as backward; what is within the optimizer's range (its closure) counts as what it is.
-- Where no name says forward or backward, operators do: those that backward nodes point to by sequence number, on the
-- step's thread, and the nodes on any thread of its process. Then it is the time that these cover. Operators without a node
-- (a copy to the device) have the number of the next one that has: of those with one number the last counts, and what is
-- around it.
--
-- columns:
--   source_id      integer   the input
--   step_id        bigint    the step, as _step has it
--   data_ns        bigint    time in getting input, NULL where no name says
--   h2d_ns         bigint    in moving it to the device, NULL likewise
--   forward_ns     bigint    in the forward, NULL where neither names nor operators say
--   backward_ns    bigint    in the backward, NULL likewise
--   optimizer_ns   bigint    in the optimizer, NULL where no name says

with
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
        and coalesce(end_ns <= max(if(phase = 'optimizer', end_ns, null)) over before, false) as is_in_optimizer
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
        sum(wall_ns) filter (phase = 'backward')::bigint as backward_ns,
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
    select range.source_id, thread.process_id, range.thread_id, range.sequence_number, range.start_ns, range.end_ns
    from range
    join thread using (source_id, thread_id)
    where range.is_backward and range.source_id in (from unnamed)
),
operator as (
    select source_id, process_id, thread_id, 'backward' as phase, start_ns, end_ns
    from node
    union all
    select range.source_id, thread.process_id, range.thread_id, 'forward', range.start_ns, range.end_ns
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
    select step.source_id, step.step_id, operator.phase, operator.start_ns, least(operator.end_ns, step.end_ns) as end_ns
    from operator
    asof join step
        on step.source_id = operator.source_id
        and step.process_id = operator.process_id
        and step.start_ns <= operator.start_ns
    where operator.start_ns < step.end_ns and (operator.phase = 'backward' or operator.thread_id = step.thread_id)
),
covered as (
    select
        source_id,
        step_id,
        phase,
        end_ns - greatest(
            start_ns,
            coalesce(max(end_ns) over same_before, start_ns),
            if(phase = 'forward', coalesce(max(if(phase = 'backward', end_ns, null)) over before, start_ns), start_ns)
        ) as wall_ns
    from of_step
    window
        same_before as (
            partition by source_id, step_id, phase order by start_ns, end_ns desc rows between unbounded preceding and 1 preceding
        ),
        before as (
            partition by source_id, step_id order by start_ns, end_ns desc, phase rows between unbounded preceding and 1 preceding
        )
),
by_operator as (
    select
        source_id,
        step_id,
        sum(wall_ns) filter (phase = 'forward')::bigint as forward_ns,
        sum(wall_ns) filter (phase = 'backward')::bigint as backward_ns
    from covered
    where wall_ns > 0
    group by source_id, step_id
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
