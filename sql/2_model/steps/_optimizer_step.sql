-- A row is a step of an input whose steps no range names: it ends with a range of the optimizer, and began with the end of the
-- one before.
--
-- `Optimizer.step#…` of torch, or what else is called so. Several between which no backward begins, and no range of a phase
-- before it, are one: an optimizer for each adapter, or for each parameter in the backward. Where the recording shows neither,
-- those are one between which nothing is launched; a CUDA graph may hold what no range shows. The first step begins with its thread's first range or call, unless that would be more or less
-- than the others: it is left out when its kernels differ from the median of the other steps by more than a tenth.
--
-- columns:
--   source_id    integer   the input
--   thread_id    bigint    thread of the optimizer
--   process_id   bigint    process of the thread, NULL if not recorded
--   step         bigint    number of the step on its thread: that of its optimizer's step, the first is 1
--   start_ns     bigint    begin
--   end_ns       bigint    end

with
marked as (
    select range.source_id, thread.process_id, range.thread_id, range.range_id, range.start_ns, range.end_ns
    from range
    join _phase_name as said on said.name_id = range.text_id
    join thread on thread.source_id = range.source_id and thread.thread_id = range.thread_id
    where kind = 'annotation' and said.phase = 'optimizer' and range.source_id not in (select source_id from _step_range)
    qualify is_outermost(range.source_id, range.thread_id, range.start_ns, range.end_ns, range.range_id)
),
-- launches up to a moment
launched as (
    select
        op.source_id,
        op.launch_start_ns,
        row_number() over (partition by op.source_id order by op.launch_start_ns) as launch_cnt
    from gpu_op as op
    semi join marked using (source_id)
    where op.is_first_op
),
-- launches of CUDA graphs up to a moment
replayed as (
    select api_call.source_id, start_ns, row_number() over (partition by api_call.source_id order by start_ns) as graph_cnt
    from api_call
    semi join marked using (source_id)
    semi join (select name_id from name where contains(text, 'GraphLaunch')) as launching using (name_id)
),
-- where a part of a step begins, a forward that the backward computes again is none
named as (
    select range.source_id, thread.process_id, range.thread_id, said.phase, range.start_ns, range.end_ns
    from range
    join _phase_name as said on said.name_id = range.text_id
    join thread on thread.source_id = range.source_id and thread.thread_id = range.thread_id
    semi join marked on marked.source_id = range.source_id
    where kind = 'annotation' and said.phase in ('data', 'forward', 'backward')
    qualify coalesce(range.start_ns >= max(if(said.phase = 'backward', range.end_ns, null)) over (
        partition by range.source_id, thread.process_id order by range.start_ns, range.end_ns desc
        rows between unbounded preceding and 1 preceding
    ), true)
),
-- nodes run by falling number, and what is computed later has higher ones; on a CPU each thread runs its own
rooted as (
    select source_id, process_id, 'backward' as phase, start_ns
    from _backward_node
    semi join marked using (source_id)
    where sequence_number is not null
    qualify coalesce(sequence_number > max(sequence_number) over (
        partition by source_id, process_id, if(source_id in (select source_id from launched), null, thread_id)
        order by start_ns rows between unbounded preceding and 1 preceding
    ), true)
),
begun as (
    select
        source_id,
        coalesce(process_id, -1) as process_id,
        start_ns,
        row_number() over (partition by source_id, process_id order by start_ns) as begin_cnt,
        bool_or(phase <> 'data') over (partition by source_id, process_id) as is_known
    from (select source_id, process_id, phase, start_ns from named union all from rooted)
),
counted as (
    select
        marked.* exclude (thread_id),
        -- what autograd's thread calls belongs to the thread that waits for it
        if(around.end_ns >= marked.end_ns, around.thread_id, marked.thread_id) as thread_id,
        coalesce(at_start.launch_cnt, 0) as start_cnt,
        coalesce(at_end.launch_cnt, 0) as end_cnt,
        coalesce(replayed.graph_cnt, 0) as graph_cnt,
        coalesce(before.begin_cnt, 0) as begin_cnt,
        coalesce(before.is_known, false) as is_known,
        launched_any.source_id is not null as has_launches
    from marked
    asof left join launched as at_start
        on at_start.source_id = marked.source_id and at_start.launch_start_ns < marked.start_ns
    asof left join launched as at_end
        on at_end.source_id = marked.source_id and at_end.launch_start_ns <= marked.end_ns
    asof left join begun as before
        on before.source_id = marked.source_id
        and before.process_id = coalesce(marked.process_id, -1)
        and before.start_ns <= marked.end_ns
    asof left join (from named where phase = 'backward') as around
        on around.source_id = marked.source_id
        and around.process_id is not distinct from marked.process_id
        and around.start_ns <= marked.start_ns
    asof left join replayed
        on replayed.source_id = marked.source_id and replayed.start_ns <= marked.end_ns
    left join (
        select distinct source_id from launched
    ) as launched_any on launched_any.source_id = marked.source_id
),
last_of_step as (
    select *
    from counted
    window in_order as (partition by source_id, thread_id order by start_ns)
    qualify case
        when lead(end_cnt) over in_order is null then true
        when lead(begin_cnt) over in_order > begin_cnt then true
        when not has_launches then not is_known
        when is_known then lead(graph_cnt) over in_order > graph_cnt
        else lead(start_cnt) over in_order > end_cnt
    end
),
seen as (
    select source_id, thread_id, min(start_ns) as start_ns
    from (
        select source_id, thread_id, min(start_ns) as start_ns
        from range
        where kind <> 'python' and source_id in (select source_id from marked)
        group by all
        union all
        select source_id, thread_id, min(start_ns)
        from api_call
        where source_id in (select source_id from marked)
        group by all
    )
    group by all
),
bounded as (
    select
        ending.source_id,
        ending.thread_id,
        coalesce(lag(ending.end_ns) over in_order, seen.start_ns) as start_ns,
        ending.end_ns,
        ending.end_cnt - coalesce(lag(ending.end_cnt) over in_order, 0) as launch_cnt,
        ending.has_launches,
        row_number() over in_order as place
    from last_of_step as ending
    left join seen using (source_id, thread_id)
    window in_order as (partition by ending.source_id, ending.thread_id order by ending.start_ns)
),
judged as (
    select
        *,
        count(*) over of_thread as step_cnt,
        median(launch_cnt) filter (place > 1) over of_thread as median_cnt
    from bounded
    window of_thread as (partition by source_id, thread_id)
)
select
    judged.source_id,
    judged.thread_id,
    thread.process_id,
    judged.place as step,
    judged.start_ns,
    judged.end_ns
from judged
left join thread using (source_id, thread_id)
where step_cnt > 1
    and (place > 1 or has_launches and abs(launch_cnt - median_cnt) <= 0.1 * median_cnt)
