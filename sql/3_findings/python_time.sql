-- A row is a place within the steps of an input without GPU work where no operator runs for long.
--
-- Look at your own Python there: logging, metrics, saving, checks, something that is waited for. Ranges (lorabench.span) or Python's stacks (collect --with-stack) name it.
--
-- Without torch: Look at what the program does there: logging, saving, something that is waited for.
with
placed as (
    select
        gap.source_id,
        coalesce(range_path.path, format('(between {} and {})', coalesce(gap.before, 'the begin'), coalesce(gap.behind, 'the end'))) as place,
        gap.end_ns - gap.start_ns as ns,
        gap.frame
    from _cpu_gap as gap
    left join range_path using (path_id)
    where gap.rule = 'python_time'
),
long as (
    select *, 8 * ns >= max(ns) over (partition by source_id, place) as is_long
    from placed
)
select
    source_id,
    place,
    sum(ns) as saving_ns,
    count(*) as occurrence_cnt,
    format('no operator runs {}, {}', if(count(*) = 1, 'once', format('{:,} times', count(*))),
        said_lengths(count(*), avg(ns), max(ns), count(*) filter (is_long), coalesce(sum(ns) filter (is_long), 0)))
    || coalesce('; in the longest Python is in ' || arg_max(frame, ns), '') as evidence
from long
group by source_id, place
