-- A row is one event of a piece of a Kineto trace, its times in nanoseconds.
--
-- Times are microseconds in the file, with up to three decimals. The reader gives `time_type`: double where a double
-- holds them exactly (below 2^43, or whole numbers), decimal where it does not. Integer and fraction are converted
-- apart, because a double of nanoseconds since 1970 has no room for the last digits.

select
    $first_position + row_number() over () as position,
    ph as phase,
    coalesce(cat, '') as category,
    name,
    try_cast(pid as bigint) as pid,
    coalesce(try_cast(tid as bigint), try_cast(regexp_extract(tid, '-?[0-9]+$') as bigint)) as tid,
    floor(ts)::bigint * 1000 + round((ts - floor(ts)) * 1000)::bigint as start_ns,
    floor(ts)::bigint * 1000 + round((ts - floor(ts)) * 1000)::bigint
        + floor(dur)::bigint * 1000 + round((dur - floor(dur)) * 1000)::bigint as end_ns,
    args.correlation as correlation_id,
    coalesce(args.device, try_cast(pid as bigint)) as device_id,
    args.context as context_id,
    try_cast(args.stream as bigint) as stream_id,
    args.bytes,
    args.grid,
    args.block,
    args."graph node id" as graph_node_id,
    args."Sequence number" as sequence_number,
    args."Fwd thread id" as forward_thread_id,
    coalesce(args.name, args.labels) as label,
    args."Input Dims" || '|' || args."Input type"
        || if(name like '%convolution%', '|' || coalesce(args."Concrete Inputs"::varchar, ''), '') as shape,
    args.wait_on_cuda_event_record_corr_id as waits_for_correlation_id,
    {
        name: args."Collective name",
        dtype: args.dtype,
        in_element_cnt: args."In msg nelems",
        out_element_cnt: args."Out msg nelems",
        group_size: args."Group size"
    } as collective
from read_json(
    $path,
    format = 'array',
    records = true,
    columns = {
        ph: 'varchar',
        cat: 'varchar',
        name: 'varchar',
        pid: 'varchar',
        tid: 'varchar',
        ts: $time_type,
        dur: $time_type,
        args: 'struct(
            correlation bigint, device bigint, context bigint, stream varchar, bytes bigint, grid bigint[],
            block bigint[], "graph node id" bigint, "Sequence number" bigint, "Fwd thread id" bigint, name varchar,
            labels varchar, "Input Dims" json, "Input type" json, "Concrete Inputs" json,
            wait_on_cuda_event_record_corr_id bigint, "Collective name" varchar, dtype varchar, "In msg nelems" bigint,
            "Out msg nelems" bigint, "Group size" bigint
        )'
    }
)
