-- A row is a place of late work or of a wait (_costly_place), and what nsys saw the CPU run in its idle gaps.
--
-- Samples of the thread that launched what ended a gap count. They are taken while a thread runs, so one that has less than a
-- fifth of those that the time has room for mostly waits there, for something or for a core. What takes less than a tenth of
-- them is not named.
--
-- columns:
--   source_id    integer   the input
--   rule         varchar   the rule, see _blamed_place
--   place        varchar   its place, NULL outside all ranges
--   sample_cnt   bigint    samples in its gaps
--   is_waiting   boolean   whether the thread hardly runs there
--   said         varchar   how many samples, and the libraries with most of them
--   module       varchar   file name of the library or program with most, NULL where the thread hardly runs

with
-- where gaps of several devices overlap, up to the end of what has begun
gap as (
    select
        gap.number,
        launch.source_id,
        launch.thread_id,
        gap.start_ns,
        max(gap.end_ns) over (partition by gap.number, launch.thread_id order by gap.start_ns) as end_ns
    from _place_gap as gap
    join gpu_op as op using (gpu_op_id)
    join api_call as launch using (api_call_id)
    where has_samples(launch.source_id)
),
sample as materialized (
    from _cpu_sample
),
launching as (
    select distinct number, source_id, thread_id from gap
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
    where asked.start_ns < gap.end_ns
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
            || if(function <> '' and 2 * function_cnt > sample_cnt, ' (' || without_arguments(function) || ')', ''),
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
judged as (
    select
        place.*,
        coalesce(named.sample_cnt, 0) as sample_cnt,
        place.idle_ns / period.period_ns as room,
        coalesce(named.sample_cnt, 0) < room / 5 as is_waiting,
        named.libraries,
        named.module
    from _costly_place as place
    join period using (source_id)
    left join named using (number)
    where place.number in (select number from launching)
)
select
    source_id,
    rule,
    place,
    sample_cnt,
    is_waiting,
    if(
        is_waiting,
        format('its thread hardly runs there ({:,} samples, and room for {:,})', sample_cnt, room::bigint),
        format('{:,} samples of the CPU there: {}', sample_cnt, libraries)
    ) as said,
    if(is_waiting, null, module) as module
from judged
where if(is_waiting, room, sample_cnt) >= 10 and (is_waiting or libraries is not null)
