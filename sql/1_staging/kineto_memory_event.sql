-- A row is one allocation or free, from a [memory] event of a piece of a Kineto trace.
--
-- Read apart from the other events because `Bytes` here and `bytes` of copies are one name to DuckDB. Reads the file
-- `path`; times are of `time_type`.

with
event as (
    select
        json_extract_string(text, ['$.pid', '$.tid', '$.ts', '$.args.Bytes', '$.args.Addr', '$.args."Total Allocated"',
            '$.args."Total Reserved"', '$.args."Device Type"', '$.args."Device Id"']) as field
    from read_json($path, format = 'array', records = false, columns = {text: 'json'})
    where json_extract_string(text, '$.name') = '[memory]'
),
-- 2^61 ns, as is_measured has it
timed as (
    select *, if(abs(time) < 2305843009213693, time, null) as ts
    from (select field, try_cast(field[3] as $time_type) as time from event)
)
select
    whole_text(field[1]) as process_id,
    thread_number(field[2]) as tid,
    ns_of(ts) as time_ns,
    device_of(field[8], field[9]) as device,
    whole_text(field[4]) as bytes,
    whole_text(field[5]) as address,
    whole_text(field[6]) as allocated_bytes,
    whole_text(field[7]) as reserved_bytes,
    false as is_before
from timed
