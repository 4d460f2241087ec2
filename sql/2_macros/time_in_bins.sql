-- Table macro time_in_bins('VIEW'): how much of each series' time lies in each bin.
--
-- The view has a row for each begin (step 1) and each end (step -1) of a stretch of time: source_id, device_id, series,
-- step, time_ns. What had passed up to a moment is a sum over what began before it less what ended: no pair of stretch
-- and bin is made, and nothing is sorted. Stretches of a series may overlap; each counts.

create macro time_in_bins(edges) as table
    with
    moved as (
        select
            edge.source_id,
            edge.device_id,
            edge.series,
            bin_of(edge.time_ns, whole.first_ns, whole.span_ns, whole.bin_cnt) as bin,
            sum(edge.step) as step,
            sum(edge.step * edge.time_ns) as weight
        from query_table(edges) as edge
        join _time_window as whole using (source_id)
        group by all
    ),
    used as (
        select distinct source_id, device_id, series
        from moved
    ),
    border as (
        select used.*, bin.bin, bin.start_ns as time_ns
        from _time_bin as bin
        join used using (source_id)
        union all
        select used.*, max(bin.bin) + 1, max(bin.end_ns)
        from _time_bin as bin
        join used using (source_id)
        group by all
    ),
    until as (
        select
            border.*,
            coalesce(sum(moved.step) over before * border.time_ns - sum(moved.weight) over before, 0) as passed_ns
        from border
        left join moved
            on moved.source_id = border.source_id
            and moved.device_id is not distinct from border.device_id
            and moved.series is not distinct from border.series
            and moved.bin = border.bin - 1
        window before as (
            partition by border.source_id, border.device_id, border.series order by border.bin rows unbounded preceding
        )
    ),
    between_borders as (
        select
            source_id,
            device_id,
            series,
            bin,
            time_ns as start_ns,
            lead(time_ns) over following as end_ns,
            lead(passed_ns) over following - passed_ns as length_ns
        from until
        window following as (partition by source_id, device_id, series order by bin)
    )
    select *
    from between_borders
    where end_ns is not null
