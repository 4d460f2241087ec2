-- A row is an annotation that is a step: a numbered one, one that a framework opens, or one that repeats.
--
-- Of these three ways the first that finds any in an input (place: 0 is numbered, then what framework_step says), see
-- step_summary; steps of an evaluation are none where there are others (place 2). Of nested ones (a ProfilerStep around
-- a step of the program) the outer is the step. One that repeats covers at least half of the time in which the input
-- launched GPU work (in which it has ranges, where it has no GPU work), also without the longest of them, which may have
-- loaded or compiled, and launches half of that work; or launches nearly all of it, in which the GPU is busy for half of that
-- time, as where the CPU runs ahead and waits between the steps (in a range that saves, or holds it back). It comes three times or more on one thread, and is none
-- of a phase nor a part of one, as a module in a backward: only in an input without a backward is the forward the step, whatever
-- its range is called.
-- What torch's profiler opens when the last step is over, and closes at once as it ends, is none, nor one that the
-- recording ended in where two others are whole.
--
-- columns:
--   source_id    integer   the input
--   range_id     bigint    the range
--   path_id      bigint    its name path
--   thread_id    bigint    its thread
--   process_id   bigint    process of the thread, NULL if not recorded
--   step         bigint    number of the step, counted on its thread from 1 where none is said
--   start_ns     bigint    begin
--   end_ns       bigint    end
--   found_by     varchar   'annotation', 'framework' or 'repetition', see step_summary

with
said as (
    select
        name.name_id as text_id,
        step_number(text) as step,
        is_of_evaluation(text) as is_evaluation,
        contains(lower(text), 'epoch') as is_of_epoch,
        framework_step(text) as framework,
        _phase_name.phase,
        starts_with(text, 'ProfilerStep#') as is_profilers,
        regexp_matches(text, '^(nccl|gloo|mpi|ucc):|^## Call CompiledFxGraph|^Torch-Compiled Region') as is_inner
    from name
    semi join (
        select distinct text_id from range where kind = 'annotation'
    ) as used on used.text_id = name.name_id
    left join _phase_name using (name_id)
),
called as (
    select
        range.source_id, range.range_id, range.path_id, range.thread_id, range.depth, range.start_ns, range.end_ns,
        said.is_profilers,
        if(said.is_of_epoch, null, said.step) as step,
        if(said.step is not null, 'annotation', 'framework') as found_by,
        if(said.step is not null, if(said.is_evaluation, 2, 0), said.framework) as place
    from range
    join said using (text_id)
    where range.kind = 'annotation' and (said.step is not null and said.phase is null or said.framework is not null)
    -- one that a recording stopped in is shorter than it was
    qualify (not range.is_unfinished or count(*) filter (not range.is_unfinished) over (partition by range.source_id, place) < 2)
        and place = min(place) over (partition by range.source_id)
),
launching as (
    select source_id, min(first_launch_ns) as start_ns, max(last_launch_end_ns) as end_ns
    from _stream_work
    where source_id not in (select source_id from called)
    group by source_id
),
active as (
    select source_id, start_ns, end_ns
    from launching
    where start_ns is not null
    union all
    select source_id, min(start_ns), max(end_ns)
    from range
    where kind <> 'python'
        and source_id not in (select source_id from called)
        and source_id not in (select source_id from launching)
    group by source_id
),
with_backward as (
    select source_id
    from range
    left join said using (text_id)
    where is_backward or said.phase = 'backward'
    group by source_id
),
candidate as (
    select
        range.source_id, range.thread_id, range.path_id, range.depth, range.end_ns - range.start_ns as duration_ns,
        active.end_ns - active.start_ns as active_ns,
        least(range.end_ns, active.end_ns) - greatest(range.start_ns, active.start_ns) as inside_ns
    from range
    join active using (source_id)
    join said using (text_id)
    where range.kind = 'annotation'
        and not said.is_inner
        and (said.phase is null or said.phase = 'forward' and range.source_id not in (from with_backward))
        and range.end_ns > active.start_ns
        and range.start_ns < active.end_ns
),
-- graphs that are recorded whole are no kernels
whole as (
    select
        source_id,
        sum(end_ns - start_ns) filter (kind = 'kernel' or kind = 'graph') as work_ns,
        2 * sum(end_ns - start_ns) filter (kind = 'graph') > sum(end_ns - start_ns) as is_of_graphs,
        count(distinct coalesce(process_id, -1)) as process_cnt
    from gpu_op
    where source_id in (select source_id from launching)
    group by source_id
),
measured as (
    select
        own.source_id, own.attribution_id, whole.process_cnt, whole.work_ns as whole_ns,
        if(coalesce(whole.is_of_graphs, false), work.gpu_op_ns, work.kernel_ns) as work_ns
    from (select distinct source_id, attribution_id from attribution) as own
    join set_work as work using (attribution_id)
    join whole using (source_id)
),
-- what ranges launch, as a share of what all ranges do, and of all; processes may have ranges of their own
launched as (
    select
        in_path.source_id,
        in_path.path_id,
        sum(measured.work_ns) as work_ns,
        sum(measured.work_ns) / any_value(measured.whole_ns) as whole_frac,
        any_value(measured.process_cnt) * sum(measured.work_ns) / any_value(in_ranges.work_ns) as frac
    from attribution as in_path
    join measured using (attribution_id)
    join (select source_id, sum(work_ns) as work_ns from measured group by source_id) as in_ranges
        on in_ranges.source_id = in_path.source_id
    where in_path.rule <> 'sequence'
    group by in_path.source_id, in_path.path_id
),
repeating as (
    select candidate.source_id, thread_id, candidate.path_id, any_value(depth) as depth, sum(duration_ns) as duration_ns
    from candidate
    left join launched using (source_id, path_id)
    group by candidate.source_id, thread_id, candidate.path_id
    having count(*) >= 3
        and (
            2 * (sum(inside_ns) - max(inside_ns)) >= any_value(active_ns) - max(inside_ns)
            and (
                coalesce(2 * any_value(launched.frac) >= 1, false)
                or candidate.source_id not in (select source_id from launched)
            )
            or coalesce(
                any_value(launched.whole_frac) >= 0.9 and 2 * any_value(launched.work_ns) >= any_value(active_ns), false
            )
        )
),
-- of a training the backward is a part of the step: what runs beside none of its nodes is a model's forward, or a piece of it
node as (
    select source_id, process_id, start_ns, max(end_ns) over (partition by source_id, process_id order by start_ns) as end_ns
    from _backward_node
    where source_id in (select source_id from repeating)
),
beside as (
    select ranged.source_id, ranged.thread_id, ranged.path_id, bool_or(node.end_ns > ranged.start_ns) as has_node
    from (
        select range.source_id, thread.process_id, range.thread_id, range.path_id, range.start_ns, range.end_ns
        from range
        join thread using (source_id, thread_id)
        semi join repeating
            on repeating.source_id = range.source_id
            and repeating.thread_id = range.thread_id
            and repeating.path_id = range.path_id
        where range.source_id in (select source_id from node)
    ) as ranged
    asof join node
        on node.source_id = ranged.source_id
        and node.process_id is not distinct from ranged.process_id
        and node.start_ns < ranged.end_ns
    group by ranged.source_id, ranged.thread_id, ranged.path_id
),
phase_path as (
    select phased.source_id, phased.path
    from range_path as phased
    join said on said.text_id = phased.name_id
    where said.phase in ('forward', 'backward', 'recompute', 'optimizer') and phased.source_id in (from with_backward)
),
repeated as (
    select repeating.source_id, repeating.thread_id, repeating.path_id
    from repeating
    join range_path using (source_id, path_id)
    where repeating.source_id not in (select source_id from _sibling_step)
    and not exists (
        from beside
        where beside.source_id = repeating.source_id
            and beside.thread_id = repeating.thread_id
            and beside.path_id = repeating.path_id
            and not beside.has_node
    )
    and not exists (
        from phase_path
        where phase_path.source_id = repeating.source_id and starts_with(range_path.path, phase_path.path || '/')
    )
    qualify row_number() over (
        partition by repeating.source_id, repeating.thread_id
        order by repeating.depth, repeating.duration_ns desc, repeating.path_id
    ) = 1
),
found as (
    select source_id, range_id, path_id, thread_id, step, start_ns, end_ns, found_by, is_profilers
    from called
    union all
    select source_id, range_id, path_id, thread_id, null, start_ns, end_ns, 'repetition', false
    from range
    semi join repeated using (source_id, thread_id, path_id)
    where kind = 'annotation'
),
outermost as (
    select *
    from found
    qualify is_outermost(source_id, thread_id, start_ns, end_ns, range_id)
        and not (
            is_profilers
            and start_ns = max(start_ns) over (partition by source_id, thread_id)
            and 10 * (end_ns - start_ns) < median(end_ns - start_ns) over (partition by source_id, thread_id)
        )
)
select
    outermost.source_id,
    outermost.range_id,
    outermost.path_id,
    outermost.thread_id,
    thread.process_id,
    coalesce(
        outermost.step, row_number() over (partition by outermost.source_id, outermost.thread_id order by outermost.start_ns)
    ) as step,
    outermost.start_ns,
    outermost.end_ns,
    outermost.found_by
from outermost
left join thread using (source_id, thread_id)
