-- A row is what one step's length hung on: a kernel, a launch, a wait, or the CPU inside one range.
--
-- From the end of the trace back, each time to what was waited for: a GPU operation to the one before it on its stream
-- when it was queued behind it, to another on its device when it began long after its launch, else to its launching
-- call; the CPU to the operation whose end it last waited for. Which stream waits for which is inferred from times, of
-- torch's traces too, which name the event. The rows of a step add up to its duration exactly. Only what is here makes a
-- step shorter when it gets faster, and only until something else is in its place. CPU time belongs to the innermost
-- annotation of its thread; operators are left out, as they may cross annotations.
--
-- columns:
--   step            bigint    number of the step, NULL for an input without steps
--   activity        varchar   'cpu', 'kernel', 'memcpy', 'memset', 'graph', 'launch' (from its call to its begin) or 'wait'
--   name            varchar   the GPU operation; NULL for the CPU
--   path            varchar   range path that owns the operation, or that the CPU was in; NULL outside all ranges
--   critical_ns     bigint    time on the critical path
--   critical_frac   double    critical_ns / duration of the step
--   segment_cnt     bigint    stretches, NULL for the CPU
--   source_id       integer   the input, see trace_info
--   rank            integer   rank of the input, NULL if not recorded

with
on_gpu as (
    select
        piece.source_id,
        piece.step_id,
        piece.step,
        piece.step_ns,
        if(piece.kind = 'gpu', op.kind, piece.kind) as activity,
        op.name_id,
        own.path_id,
        sum(piece.end_ns - piece.start_ns) as critical_ns,
        count(*) as segment_cnt
    from _critical_piece as piece
    join gpu_op as op using (gpu_op_id)
    left join _owner as own using (attribution_id)
    group by all
),
cpu as (
    select
        *,
        sum(end_ns - start_ns) over (
            partition by source_id, thread_id order by start_ns rows unbounded preceding
        ) - (end_ns - start_ns) as before_ns
    from _critical_piece
    where kind = 'cpu'
),
bounded as (
    select range.source_id, range.thread_id, range.path_id, range.start_ns, range.end_ns
    from range
    join range_path using (path_id)
    where range_path.kind = 'annotation'
),
at_end as (
    select
        bounded.*,
        coalesce(cpu.before_ns + least(bounded.end_ns - cpu.start_ns, cpu.end_ns - cpu.start_ns), 0) as until_end_ns
    from bounded
    asof left join cpu
        on cpu.source_id = bounded.source_id
        and cpu.thread_id = bounded.thread_id
        and cpu.start_ns <= bounded.end_ns
),
inside as (
    select
        at_end.*,
        at_end.until_end_ns
        - coalesce(cpu.before_ns + least(at_end.start_ns - cpu.start_ns, cpu.end_ns - cpu.start_ns), 0) as critical_ns
    from at_end
    asof left join cpu
        on cpu.source_id = at_end.source_id
        and cpu.thread_id = at_end.thread_id
        and cpu.start_ns <= at_end.start_ns
),
step as (
    select source_id, step_id, step, step_ns, min(start_ns) as start_ns, max(end_ns) as end_ns
    from _critical_piece
    group by all
),
-- ranges of a step lie within it; those around it hold none of its time that they do not share with it
placed as (
    select step.source_id, step.step_id, step.step, step.step_ns, inside.path_id, sum(inside.critical_ns) as critical_ns
    from inside
    asof join step on step.source_id = inside.source_id and inside.start_ns >= step.start_ns
    where inside.critical_ns > 0 and inside.end_ns <= step.end_ns
    group by all
),
own as materialized (
    select
        placed.source_id,
        placed.step_id,
        placed.step,
        placed.step_ns,
        placed.path_id,
        placed.critical_ns - coalesce(sum(child.critical_ns), 0) as critical_ns
    from placed
    left join range_path as below on below.parent_path_id = placed.path_id and below.kind = 'annotation'
    left join placed as child
        on child.source_id = placed.source_id
        and child.step_id is not distinct from placed.step_id
        and child.path_id = below.path_id
    group by placed.source_id, placed.step_id, placed.step, placed.step_ns, placed.path_id, placed.critical_ns
),
outside as (
    select
        whole.source_id,
        whole.step_id,
        whole.step,
        whole.step_ns,
        null::bigint as path_id,
        whole.critical_ns - coalesce(known.critical_ns, 0) as critical_ns
    from (
        select source_id, step_id, step, step_ns, sum(end_ns - start_ns) as critical_ns
        from cpu
        group by all
    ) as whole
    left join (
        select source_id, step_id, sum(critical_ns) as critical_ns
        from own
        group by all
    ) as known
        on known.source_id = whole.source_id and known.step_id is not distinct from whole.step_id
),
on_cpu as (
    from own
    union all by name
    from outside
),
everything as (
    select source_id, step_id, step, step_ns, activity, name_id, path_id, critical_ns, segment_cnt
    from on_gpu
    union all by name
    select source_id, step_id, step, step_ns, 'cpu' as activity, path_id, critical_ns
    from on_cpu
)
select
    everything.step,
    everything.activity,
    name.text as name,
    range_path.path,
    everything.critical_ns::bigint as critical_ns,
    everything.critical_ns / nullif(everything.step_ns, 0) as critical_frac,
    everything.segment_cnt,
    everything.source_id,
    source.rank
from everything
join source on source.source_id = everything.source_id
left join name on name.name_id = everything.name_id
left join range_path on range_path.path_id = everything.path_id
where everything.critical_ns <> 0
order by everything.source_id, everything.step, everything.step_id, everything.critical_ns desc, everything.activity,
    everything.name_id, everything.path_id
