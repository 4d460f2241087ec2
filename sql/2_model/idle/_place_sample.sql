-- A row is a place of late work or of a wait (_costly_place), and what nsys saw the CPU run in its idle gaps.
--
-- Samples of the threads that launched what ended the gaps count. They are taken while a thread runs: where there are fewer than
-- three quarters of those that the time has room for, the thread waits for the rest of it, for something or for a core. Gaps of
-- several devices at once are that time once. What takes less than a tenth of the samples is not named.
--
-- columns:
--   source_id    integer   the input
--   rule         varchar   the rule, see _blamed_place
--   place        varchar   its place, NULL outside all ranges
--   is_waiting   boolean   whether there are less than a fifth of those that the time has room for
--   said         varchar   how many samples, how much of the time that is, and the libraries with most of them
--   module       varchar   file name of the library or program with most, NULL where the thread hardly runs

with
gap as (
    select
        gap.number,
        launch.source_id,
        launch.thread_id,
        gap.start_ns,
        max(gap.end_ns) as end_ns,
        max(max(gap.end_ns)) over (
            partition by gap.number, launch.source_id, launch.thread_id
            order by gap.start_ns rows between unbounded preceding and 1 preceding
        ) as before_ns
    from _place_gap as gap
    join gpu_op as op using (gpu_op_id)
    join api_call as launch using (api_call_id)
    where has_samples(launch.source_id)
    group by gap.number, launch.source_id, launch.thread_id, gap.start_ns
),
sample as materialized (
    from _cpu_sample
),
launching as (
    select
        number,
        source_id,
        thread_id,
        sum(greatest(end_ns - greatest(start_ns, coalesce(before_ns, start_ns)), 0)) as idle_ns,
        count(*) as gap_cnt
    from gap
    group by number, source_id, thread_id
),
asked as (
    select launching.number, launching.thread_id, sample.start_ns, sample.module_id, sample.name_id
    from launching
    join sample on sample.source_id = launching.source_id and sample.thread_id = launching.thread_id
),
found as (
    select asked.number, file_name(module.text) as module, coalesce(name.text, '') as function, count(*) as sample_cnt
    from asked
    asof join gap
        on gap.number = asked.number and gap.thread_id = asked.thread_id and gap.start_ns <= asked.start_ns
    left join name as module on module.name_id = asked.module_id
    left join name on name.name_id = asked.name_id
    where asked.start_ns < greatest(gap.end_ns, coalesce(gap.before_ns, gap.end_ns))
    group by all
),
by_module as (
    select
        number,
        module,
        arg_max(function, (sample_cnt, function)) as function,
        max(sample_cnt) as function_cnt,
        sum(sample_cnt)::bigint as sample_cnt,
        sum(sum(sample_cnt)) over (partition by number)::bigint as all_cnt
    from found
    group by number, module
),
most as (
    select *, row_number() over (partition by number order by sample_cnt desc, module) as place
    from by_module
),
named as (
    select
        number,
        any_value(all_cnt) as sample_cnt,
        arg_min(module, place) as module,
        string_agg(
            format('{:.0f}% in {}', 100 * sample_cnt / all_cnt, coalesce(module, 'unknown code'))
            || if(
                function <> '' and 2 * function_cnt > sample_cnt,
                format(' ({}{})', without_arguments(function),
                    if(10 * function_cnt > 9 * sample_cnt, '', format(' {:.0f}%', 100 * function_cnt / all_cnt))),
                ''
            ),
            ', ' order by place
        ) filter (place <= 3 and 10 * sample_cnt >= all_cnt) as libraries
    from most
    group by number
),
-- how far apart the samples of a running thread are
period as (
    select source_id, median(distance_ns) as period_ns
    from (
        select
            source_id,
            start_ns - lag(start_ns) over (partition by source_id, thread_id order by start_ns) as distance_ns
        from sample
    )
    where distance_ns > 0
    group by source_id
),
launched as (
    select number, sum(idle_ns) as idle_ns, count(*) as thread_cnt, sum(gap_cnt) as gap_cnt
    from launching
    group by number
),
judged as (
    select
        place.source_id,
        place.rule,
        place.place,
        coalesce(named.sample_cnt, 0) as sample_cnt,
        launched.idle_ns / period.period_ns as room,
        coalesce(named.sample_cnt, 0) / room as running_frac,
        if(launched.thread_cnt = 1, 'its thread', 'their threads') as who,
        if(launched.thread_cnt = 1, 'runs', 'run') as runs,
        launched.gap_cnt = 1 as is_one,
        named.libraries,
        named.module
    from _costly_place as place
    join period using (source_id)
    join launched using (number)
    left join named using (number)
    where launched.idle_ns > 0
)
select
    source_id,
    rule,
    place,
    running_frac < 0.2 as is_waiting,
    case
        when running_frac < 0.2
            then format('{} hardly {} {} ({:,} samples, and room for {:,})', who, runs, if(is_one, 'there', 'in them'), sample_cnt,
                room::bigint)
        when running_frac < 0.75
            then format('{} {} in {:.0f}% of the time ({:,} samples): {}', who, runs, 100 * running_frac, sample_cnt, libraries)
        else format('{:,} samples of the CPU {}: {}', sample_cnt, if(is_one, 'there', 'in all of them'), libraries)
    end as said,
    if(running_frac < 0.2, null, module) as module
from judged
where if(running_frac < 0.2, room, sample_cnt) >= 10 and (running_frac < 0.2 or libraries is not null)
