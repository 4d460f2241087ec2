-- A row is an input of five steps or more that a range or an optimizer shows, some slower than the median by more than uneven_step_frac, together by notable_frac of the time.
--
-- Look at the phases of the slow steps in step_summary: data loading, checkpoints and evaluation, garbage collection, varying lengths, recompilation.
--
-- Only with: select source_id from step_summary group by source_id having count(*) >= 5
-- and max(length_ns) > min(length_ns) * (1 + (select value from threshold where name = 'uneven_step_frac'))

with
-- runs that say of their steps without a profiler that they are as long as each other
even as (
    select source_id
    from _run_facts
    where try_cast(said['longest step without a profiler ns'] as bigint)
        <= try_cast(said['step without a profiler ns'] as bigint) * (1 + (select value from threshold where name = 'uneven_step_frac'))
),
-- beside the median of those that count
judged as (
    select
        step_summary.* replace (
            -- adapters in turn have lengths of their own
            step_summary.length_ns / median(step_summary.length_ns) over (partition by step_summary.source_id, turn.adapter) - 1 as slower_frac
        ),
        steady.end_ns - steady.start_ns as judged_ns
    from (
        select
            *,
            -- the first and the last have the start and the end of the recording in them
            start_ns > min(start_ns) over (partition by source_id) and start_ns < max(start_ns) over (partition by source_id)
                as is_between
        from step_summary
    ) as step_summary
    join _steady_time as steady using (source_id)
    left join _adapter_step as turn on turn.source_id = step_summary.source_id and turn.start_ns = step_summary.start_ns
    semi join (select source_id from step_summary group by source_id having count(*) >= 5) as enough using (source_id)
    anti join (select source_id from _step_pace where is_beside) as beside using (source_id) -- requests differ
    anti join even using (source_id)
    -- of processes side by side each has steps of its own length
    anti join (
        select source_id from _step_pace group by source_id having count(distinct process) > 1
    ) as several on several.source_id = step_summary.source_id
    where found_by <> 'period' -- what differs may be another layer
        and step_summary.start_ns >= coalesce(steady.first_step_ns, step_summary.start_ns)
),
known as (
    select
        source_id,
        count(*) as step_cnt,
        count(*) filter (not is_between and slower_frac > (select value from threshold where name = 'uneven_step_frac')) as slow_edge_cnt
    from judged
    group by source_id
),
slow as (
    select *, length_ns - length_ns / (1 + slower_frac) as longer_ns
    from judged
    where slower_frac > (select value from threshold where name = 'uneven_step_frac') and is_between
),
slowest as (
    select source_id, arg_max(step, slower_frac) as step, max(slower_frac) as slower_frac, arg_max(longer_ns, slower_frac) as longer_ns
    from slow
    group by source_id
),
-- how much longer than in other steps the CPU is in each phase of the slowest one
phase as (
    select
        source_id,
        step,
        unnest([
            'input', 'copies to the device', 'forward', 'backward', 'optimizer', 'what follows the step',
            'what is in no phase (saving, logging, garbage collection …)'
        ]) as what,
        false as is_cause,
        unnest([
            data_ns, h2d_ns, forward_ns, backward_ns, optimizer_ns, between_ns,
            if(coalesce(forward_ns, backward_ns) is null, null, wall_ns - list_sum(
                [coalesce(data_ns, 0), coalesce(h2d_ns, 0), coalesce(forward_ns, 0), coalesce(backward_ns, 0), coalesce(optimizer_ns, 0)]
            ))
        ]) as phase_ns
    from judged
    union all
    -- for which the CPU waits somewhere
    select source_id, step, 'the GPU''s work', true, gpu_busy_ns
    from judged
    where gpu_busy_ns is not null
    union all
    -- ranges side by side that are a step together
    select step.source_id, step.step, range_path.path, false, sum(range.end_ns - range.start_ns)
    from range
    join range_path using (path_id)
    asof join _sibling_step as step
        on step.source_id = range.source_id and step.thread_id = range.thread_id and step.start_ns <= range.start_ns
    where range.kind = 'annotation' and range.depth = 0
    group by all
    union all
    -- what lies in a phase, or in none, and says why that is longer
    select step.source_id, step.step, known.what, true, coalesce(sum(aside.end_ns - aside.start_ns), 0)
    from judged as step
    join (values ('compiling and loading'), ('a forward without gradient (evaluating)')) as known(what) on true
    left join (
        select source_id, 'compiling and loading' as what, start_ns, end_ns from _compiling
        union all
        select range.source_id, 'a forward without gradient (evaluating)', range.start_ns, range.end_ns
        from range
        join _phase_name as said on said.name_id = range.text_id and said.phase = 'no_grad'
        where range.kind = 'annotation'
    ) as aside
        on aside.source_id = step.source_id
        and aside.what = known.what
        and aside.start_ns between step.start_ns and step.start_ns + step.wall_ns
    group by all
),
longer as (
    select source_id, step, what, is_cause, phase_ns - median(phase_ns) over (partition by source_id, what) as longer_ns
    from phase
),
where_found as (
    select slowest.source_id, arg_max(longer.what, (longer.is_cause, longer.longer_ns)) as what,
        max((longer.is_cause, longer.longer_ns))[2] as longer_ns
    from slowest
    join longer using (source_id, step)
    where longer.longer_ns >= 0.5 * slowest.longer_ns
    group by slowest.source_id
)
select
    slow.source_id,
    coalesce(any_value(slow.path), format('{:,} of {:,} steps', count(*), any_value(known.step_cnt))) as place,
    null::bigint as saving_ns,
    count(*) as occurrence_cnt,
    format('{} (step {}) {:.0f} % above the median{}', if(count(*) = 1, 'one step', format('{:,} steps, the slowest', count(*))),
        any_value(slowest.step), 100 * any_value(slowest.slower_frac),
        if(slow.source_id in (select source_id from _adapter_step), ' of its adapter', ''))
    || format(', {}{} longer', if(count(*) = 1, '', 'together '), said_ns(sum(slow.longer_ns)))
    || coalesce(
        format('; {} is {} longer in {}', any_value(where_found.what), said_ns(any_value(where_found.longer_ns)),
            if(count(*) = 1, 'it', 'the slowest')),
        ''
    )
    || if(any_value(known.slow_edge_cnt) > 0,
        '; the first and the last do not count, in which a recording begins and ends', '') as evidence
from slow
join slowest using (source_id)
join known using (source_id)
left join where_found using (source_id)
group by slow.source_id
having sum(slow.longer_ns) >= (select value from threshold where name = 'notable_frac') * any_value(slow.judged_ns)
