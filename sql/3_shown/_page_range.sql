-- A row is one range that the timeline draws: annotations of eight levels, or the outer operators where there are none.
--
-- Of the three threads of an input with the most time in such ranges.
--
-- columns:
--   source_id    integer    the input
--   thread       varchar    the thread
--   place        bigint     its place by the time of its ranges, from 1 on
--   depth        integer    level below the thread's outermost ranges that are drawn
--   start_ns     bigint     begin, on the file's clock
--   end_ns       bigint     end
--   path_id      bigint     the path

with
chosen as (
    select range.*, range_path.depth as path_depth
    from range
    join range_path using (path_id)
    left join (select distinct source_id from range where kind = 'annotation') as annotated
        on annotated.source_id = range.source_id
    where range.kind = if(annotated.source_id is not null, 'annotation', 'operator')
        and range_path.depth < if(annotated.source_id is not null, 8, 3)
),
thread_time as (
    select
        source_id,
        thread_id,
        row_number() over (
            partition by source_id order by sum(end_ns - start_ns) filter (path_depth = 0) desc nulls last, thread_id
        ) as place
    from chosen
    group by source_id, thread_id
    qualify place <= 3
)
select
    chosen.source_id,
    if(contains(thread.name, thread.tid::varchar), thread.name, concat(coalesce(thread.name, 'thread'), ' ', thread.tid))
        as thread,
    thread_time.place,
    chosen.path_depth as depth,
    chosen.start_ns,
    chosen.end_ns,
    chosen.path_id
from chosen
join thread_time using (source_id, thread_id)
join thread using (source_id, thread_id)
