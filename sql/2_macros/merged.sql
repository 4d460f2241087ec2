-- Table macro merged('VIEW'): the union of a view's times in each process.
--
-- The view has source_id, process, start_ns, end_ns and, of what the time belongs to, place. A stretch of the union has the
-- place of the longest time in it, and before_ns, how long the stretches before it are together:
--
--     view     |------a------|           |--c--|
--                 |--b--|
--     merged   |------a------|           |--c--|
--     before_ns  0                        13

create macro merged(times) as table
    with
    marked as (
        select *, coalesce(start_ns > max(end_ns) over before, true) as begins
        from query_table(times)
        window before as (
            partition by source_id, process order by start_ns, end_ns, place rows between unbounded preceding and 1 preceding
        )
    ),
    -- of equal rows the one that begins comes first here, too: behind another it would leave that to the stretch before
    numbered as (
        select
            *,
            sum(begins::int) over (
                partition by source_id, process order by start_ns, end_ns, place, begins desc rows unbounded preceding
            ) as number
        from marked
    ),
    stretch as (
        select
            source_id,
            process,
            min(start_ns) as start_ns,
            max(end_ns) as end_ns,
            arg_max(place, (end_ns - start_ns, -start_ns)) as place
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
        place
    from stretch
