-- A row is one event of a piece of a Kineto trace, its times in nanoseconds.
--
-- Reads kineto_piece(), which is kineto_typed or kineto_text. Numbers of arguments stay as they are there: who needs one
-- takes whole() of it, which is NULL for what is not usable. That costs the argument, never the event (kineto_count).
--
-- Times are microseconds in the file, with up to three decimals. The reader gives `time_type`: double where a double
-- holds them exactly (below 2^43, or whole numbers), decimal where it does not. Times for which a bigint has no room, twice
-- what is_measured lets pass, are NULL.
--
-- needs: category

with
event as (
    select
        $first_position + row_number() over () as position,
        * exclude (ts, dur),
        if(abs(time) < 4611686018427387, time, null) as ts,
        if(abs(duration) < 4611686018427387, duration, null) as dur
    from (
        select *, try_cast(ts as $time_type) as time, try_cast(dur as $time_type) as duration
        from kineto_piece()
    )
)
select
    event.position,
    event.ph as phase,
    coalesce(event.cat, '') as category,
    if(event.ph = 'X' and event.name is distinct from '[memory]', category.becomes, null) as becomes,
    category.kind,
    event.name,
    whole_text(pid) as pid,
    thread_number(tid) as tid,
    ns_of(ts) as start_ns,
    start_ns + ns_of(dur) as end_ns,
    args.correlation,
    args.device,
    args.context,
    args.stream,
    args.bytes,
    args.grid,
    args.block,
    args."graph node id" as graph_node,
    args."Sequence number" as sequence_number,
    args."Fwd thread id" as forward_thread,
    coalesce(args.name, args.labels) as label,
    args."Input Dims" || '|' || args."Input type"
        || if(name like '%convolution%' or name like '%attention%', '|' || coalesce(args."Concrete Inputs"::varchar, ''), '') as shape,
    args.wait_on_cuda_event_record_corr_id as waits_for_correlation,
    args."Collective name" as collective_name,
    misfit_cnt
from event
left join category on category.category = event.cat
