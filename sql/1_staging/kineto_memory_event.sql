-- A row is one allocation or free, from a [memory] event.
--
-- Read apart from the other events because `Bytes` here and `bytes` of copies are one name to DuckDB.

select
    reading.source_id,
    try_cast(pid as bigint) as process_id,
    coalesce(try_cast(tid as bigint), try_cast(regexp_extract(tid, '-?[0-9]+$') as bigint)) as tid,
    floor(ts)::bigint * 1000 + round((ts - floor(ts)) * 1000)::bigint as time_ns,
    if(args."Device Type" = 0, 'cpu', 'cuda:' || args."Device Id") as device,
    args."Bytes" as bytes,
    try_cast(args."Addr" as bigint) as address,
    args."Total Allocated" as allocated_bytes,
    args."Total Reserved" as reserved_bytes,
    false as is_before
from read_json(
    $path,
    format = 'array',
    records = true,
    columns = {
        name: 'varchar',
        pid: 'varchar',
        tid: 'varchar',
        ts: $time_type,
        args: 'struct(
            "Bytes" bigint, "Addr" varchar, "Total Allocated" bigint, "Total Reserved" bigint, "Device Type" bigint,
            "Device Id" bigint
        )'
    }
)
cross join reading
where name = '[memory]'
