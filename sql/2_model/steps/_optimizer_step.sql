-- A row is a step of an input whose steps no range names: it ends with a range of the optimizer, and began with the end of the
-- one before.
--
-- `Optimizer.step#…` of torch, or what else is called so. Several between which nothing is launched (an optimizer for
-- each adapter) are one. The first step begins with its thread's first range or call, unless that would be more or less
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
    select source_id, thread_id, range_id, start_ns, end_ns
    from range
    join _phase_name as said on said.name_id = range.text_id
    where kind = 'annotation' and said.phase = 'optimizer' and source_id not in (select source_id from _step_range)
    qualify is_outermost(source_id, thread_id, start_ns, end_ns, range_id)
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
counted as (
    select
        marked.*,
        coalesce(at_start.launch_cnt, 0) as start_cnt,
        coalesce(at_end.launch_cnt, 0) as end_cnt,
        launched_any.source_id is not null as has_launches
    from marked
    asof left join launched as at_start
        on at_start.source_id = marked.source_id and at_start.launch_start_ns < marked.start_ns
    asof left join launched as at_end
        on at_end.source_id = marked.source_id and at_end.launch_start_ns <= marked.end_ns
    left join (
        select distinct source_id from launched
    ) as launched_any on launched_any.source_id = marked.source_id
),
-- the last of those between which nothing is launched
last_of_step as (
    select *
    from counted
    qualify not has_launches
        or coalesce(lead(start_cnt) over (partition by source_id, thread_id order by start_ns) > end_cnt, true)
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
