-- A row is one of the 1,500 longest GPU operations of an input.
--
-- columns:
--   source_id     integer    the input
--   device_id     integer    the device
--   stream_id     bigint     the stream
--   start_ns      bigint     start, from the input's first GPU work on
--   duration_ns   bigint     how long it took
--   name          varchar    the kernel, or the kind of copy
--   path          varchar    the range that owns it

select
    op.source_id,
    op.device_id,
    op.stream_id,
    op.start_ns - begin.begin_ns as start_ns,
    op.end_ns - op.start_ns as duration_ns,
    name.text as name,
    range_path.path
from (
    from gpu_op
    qualify row_number() over (partition by source_id order by end_ns - start_ns desc, gpu_op_id) <= 1500
) as op
join (select source_id, min(start_ns) as begin_ns from gpu_op group by source_id) as begin using (source_id)
join name using (name_id)
left join range using (range_id)
left join range_path using (path_id)
order by op.source_id, duration_ns desc, op.gpu_op_id
