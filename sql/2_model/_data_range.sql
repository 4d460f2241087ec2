-- A row is a time in which a process was fetching input, by the names of annotations (phase_of): a union of them.
--
-- columns:
--   source_id   integer   the input
--   process     bigint    the process, as _work_process has it
--   start_ns    bigint    begin
--   end_ns      bigint    end
--   before_ns   bigint    how long the times before it are together
--   path_id     bigint    name path of the longest annotation

with
said as (
    select name_id
    from name
    semi join (
        select distinct name_id from range_path where kind = 'annotation'
    ) as used using (name_id)
    where phase_of(text) = 'data'
),
fetching as (
    select range.source_id, own.process, range.range_id, range.start_ns, range.end_ns, range.path_id
    from range
    join _work_process as own using (source_id, thread_id)
    semi join said using (name_id)
    where range.kind = 'annotation'
),
marked as (
    select *, coalesce(start_ns > max(end_ns) over before, true) as begins
    from fetching
    window before as (
        partition by source_id, process order by start_ns, range_id rows between unbounded preceding and 1 preceding
    )
),
numbered as (
    select
        *,
        sum(begins::int) over (
            partition by source_id, process order by start_ns, range_id rows unbounded preceding
        ) as number
    from marked
),
stretch as (
    select
        source_id,
        process,
        min(start_ns) as start_ns,
        max(end_ns) as end_ns,
        arg_max(path_id, (end_ns - start_ns, -range_id)) as path_id
    from numbered
    group by source_id, process, number
)
select
    source_id,
    process,
    start_ns,
    end_ns,
    coalesce(sum(end_ns - start_ns) over (
        partition by source_id, process order by start_ns rows between unbounded preceding and 1 preceding
    ), 0)::bigint as before_ns,
    path_id
from stretch
