-- A row is one of the 100 longest GPU operations of an input.
--
-- columns:
--   source_id     integer    the input
--   name          varchar    short name of the kernel or copy
--   path          varchar    the range that owns it
--   device_id     integer    the device
--   stream_id     bigint     the stream
--   start_ns      bigint     start, from the input's first GPU work on
--   duration_ns   bigint     how long it took
--   full_name     varchar    the name in the file

with
begin as (
    select source_id, min(start_ns) as begin_ns, list_min(max(end_ns - start_ns, 100)) as least_ns
    from gpu_op
    group by source_id
)
select
    op.source_id,
    short.short_name as name,
    range_path.path,
    op.device_id,
    op.stream_id,
    op.start_ns - begin.begin_ns as start_ns,
    op.end_ns - op.start_ns as duration_ns,
    name.text as full_name
from gpu_op as op
join begin on begin.source_id = op.source_id and op.end_ns - op.start_ns >= begin.least_ns
join _short_name as short on short.source_id = op.source_id and short.name_id = op.name_id
join name on name.name_id = op.name_id
left join _owner as own using (attribution_id)
left join range_path on range_path.path_id = own.path_id
qualify row_number() over (partition by op.source_id order by op.end_ns - op.start_ns desc, op.gpu_op_id) <= 100
order by op.source_id, duration_ns desc, op.gpu_op_id
