-- A row is one of the four annotations and operators that take most of the CPU's time of an input, for inputs without GPU work.
--
-- An annotation is what lies on one path; an operator all that has its name. What begins in the time that the answer is about
-- (_steady_time: warm steps) counts.
--
-- columns:
--   source_id      integer   the input
--   path           varchar   its name path, of an operator its name
--   self_wall_ns   bigint    its time without what lies in it, of all threads
--   thread_cnt     bigint    in how many threads it is
--   open_frac      double    share of that time in which one is open in any thread

with
measured as (
    select
        own.source_id,
        if(own.kind = 'operator', regexp_extract(range_path.path, '([^/]*)$', 1), range_path.path) as path,
        own.kind,
        sum(own.self_wall_ns)::bigint as self_wall_ns
    from (
        select
            range.source_id,
            range.path_id,
            range.kind::varchar as kind,
            sum(range.end_ns - range.start_ns - range.covered_ns) as self_wall_ns
        from range
        join _steady_time as steady using (source_id)
        where range.kind in ('annotation', 'operator')
            and range.source_id not in (from _source_with_gpu)
            and range.start_ns >= steady.start_ns
            and range.start_ns < steady.end_ns
        group by all
    ) as own
    join range_path using (path_id)
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
        least(range.end_ns, steady.end_ns) as end_ns,
        max(range.end_ns) over (
            partition by range.source_id, chosen.path, chosen.kind
            order by range.start_ns, range.end_ns rows between unbounded preceding and 1 preceding
        ) as before_ns
    from range
    join range_path using (path_id)
    join _steady_time as steady
        on steady.source_id = range.source_id and range.start_ns >= steady.start_ns and range.start_ns < steady.end_ns
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
    least(1, opened.open_ns / nullif(steady.end_ns - steady.start_ns, 0)) as open_frac
from chosen
join opened using (source_id, path, kind)
left join _steady_time as steady using (source_id)
