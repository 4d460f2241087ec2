-- A row is something that one step's length depended on: a kernel, a launch, a wait, or the CPU inside one range.
--
-- From the end of the trace back, each time to what was waited for: a GPU operation to the one before it on its stream
-- when it was queued after it, to another on its device when it began long after its launch, else to its launching
-- call; the CPU to the operation whose end it last waited for. Which stream waits for which is inferred from times, of
-- torch's traces too, which name the event. What began more than 100 us after its launch, and nothing recorded held it
-- back, waited for other work, as that from before the recording. The rows of a step add up to its own duration (wall_ns
-- of step_summary) exactly; where the CPU runs ahead of the GPU, to the time from when the GPU is done with what was
-- launched before it to when it is done with the step. Only what is here makes a step shorter when it gets faster, and
-- only until something else is in its place. CPU time belongs to the innermost annotation of its thread; operators are
-- left out, as they may cross annotations.
--
-- columns:
--   step            bigint    number of the step, NULL for an input without steps
--   activity        varchar   'cpu', 'kernel', 'memcpy', 'memset', 'graph', 'launch' (from its call to its start) or 'wait' (for other work)
--   name            varchar   the GPU operation; NULL for the CPU
--   path            varchar   range path that owns the operation, or that the CPU was in; NULL outside all ranges
--   critical_ns     bigint    time on the critical path
--   critical_frac   double    critical_ns / what the rows of the step add up to
--   segment_cnt     bigint    stretches, NULL for the CPU
--   source_id       integer   the input, see trace_info
--   rank            integer   rank of the input, NULL if not recorded

with
step as (
    select distinct source_id, step_id, step
    from _critical_piece
),
summed as (
    select
        source_id,
        step_id,
        activity,
        name_id,
        path_id,
        sum(critical_ns)::bigint as critical_ns,
        sum(segment_cnt)::bigint as segment_cnt
    from _critical_share
    group by all
    having sum(critical_ns) <> 0
)
select
    step.step,
    summed.activity,
    name.text as name,
    range_path.path,
    summed.critical_ns,
    summed.critical_ns / nullif(sum(summed.critical_ns) over (partition by summed.source_id, summed.step_id), 0)
        as critical_frac,
    summed.segment_cnt,
    summed.source_id,
    source.rank
from summed
join source on source.source_id = summed.source_id
join step on step.source_id = summed.source_id and step.step_id is not distinct from summed.step_id
left join name on name.name_id = summed.name_id
left join range_path on range_path.path_id = summed.path_id
order by summed.source_id, step.step, summed.step_id, summed.critical_ns desc, summed.activity, summed.name_id, summed.path_id
