-- A row is one of the four annotations and operators that take most of the CPU's time of an input, for inputs without GPU work.
--
-- An annotation is what lies on one path; an operator all that has its name.
--
-- columns:
--   source_id      integer   the input
--   path           varchar   its name path, of an operator its name
--   self_wall_ns   bigint    its time without what lies in it, of all threads
--   thread_cnt     bigint    in how many threads it is
--   open_frac      double    share of the recorded time in which one is open in any thread

with
measured as (
    select
        summary.source_id,
        if(summary.kind = 'operator', regexp_extract(summary.path, '([^/]*)$', 1), summary.path) as path,
        summary.kind,
        sum(summary.self_wall_ns)::bigint as self_wall_ns
    from range_summary as summary
    where summary.kind in ('annotation', 'operator') and summary.source_id not in (from _source_with_gpu)
    group by all
),
chosen as (
    select *
    from measured
    qualify row_number() over (partition by source_id order by self_wall_ns desc, path) <= 4
),
ordered as (
    select
        range.source_id,
        chosen.path,
        chosen.kind,
        range.thread_id,
        range.start_ns,
        range.end_ns,
        max(range.end_ns) over (
            partition by range.source_id, chosen.path, chosen.kind
            order by range.start_ns, range.end_ns rows between unbounded preceding and 1 preceding
        ) as before_ns
    from range
    join range_path using (path_id)
    join chosen
        on chosen.source_id = range.source_id
        and chosen.kind = range.kind::varchar
        and chosen.path = if(chosen.kind = 'operator', regexp_extract(range_path.path, '([^/]*)$', 1), range_path.path)
),
opened as (
    select
        source_id,
        path,
        kind,
        count(distinct thread_id) as thread_cnt,
        sum(greatest(0, end_ns - greatest(start_ns, coalesce(before_ns, start_ns)))) as open_ns
    from ordered
    group by source_id, path, kind
)
select
    chosen.source_id,
    chosen.path,
    chosen.self_wall_ns,
    opened.thread_cnt,
    least(1, opened.open_ns / nullif(steady.recorded_ns, 0)) as open_frac
from chosen
join opened using (source_id, path, kind)
left join _steady_time as steady using (source_id)
