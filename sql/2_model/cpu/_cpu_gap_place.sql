-- A row is what a rule of _cpu_gap is blamed for at one place.
--
-- columns:
--   source_id        integer   the input
--   rule             varchar   'late_input' or 'python_time'
--   place            varchar   name path of the range, or between which ranges it is
--   saving_ns        hugeint   their time together
--   occurrence_cnt   bigint    times without an operator, or fetches
--   long_cnt         bigint    those that are not far shorter than the longest
--   long_ns          hugeint   their time together
--   lengths          varchar   how often and how long, in words
--   frame            varchar   the innermost Python function around all of the longest, NULL where none is recorded
--   operators        varchar   the operators before and behind the longest, in words, NULL where one is not known

with
placed as (
    select
        gap.source_id,
        gap.rule,
        coalesce(range_path.path, format('(between {} and {})', coalesce(gap.before, 'the start'), coalesce(gap.behind, 'the end'))) as place,
        sum(gap.end_ns - gap.start_ns) as ns,
        arg_max(gap.frame, gap.end_ns - gap.start_ns) as frame,
        arg_max(coalesce(format('behind {} and before {}', gap.ended, gap.begun), ''), gap.end_ns - gap.start_ns) as operators
    from _cpu_gap as gap
    left join range_path using (path_id)
    where gap.rule is not null
    group by gap.source_id, gap.rule, place, gap.of_ns
),
long as (
    select *, 8 * ns >= max(ns) over (partition by source_id, rule, place) as is_long
    from placed
)
select
    source_id,
    rule,
    place,
    sum(ns) as saving_ns,
    count(*) as occurrence_cnt,
    count(*) filter (is_long) as long_cnt,
    coalesce(sum(ns) filter (is_long), 0) as long_ns,
    format('{}, {}', if(count(*) = 1, 'once', format('{:,} times', count(*))),
        said_lengths(count(*), avg(ns), max(ns), count(*) filter (is_long), coalesce(sum(ns) filter (is_long), 0))) as lengths,
    arg_max(frame, ns) as frame,
    nullif(arg_max(operators, ns), '') as operators
from long
group by source_id, rule, place
