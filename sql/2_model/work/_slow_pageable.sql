-- A row is an input most of whose copies' time on the link is of pageable memory, which is slower than the link is known to be.
--
-- How fast the link is say copies of a MiB or more, by direction and by kind of the host's memory together.
--
-- columns:
--   source_id          integer   the input
--   pageable_bytes_s   double    how fast copies from and to pageable memory are, bytes a second
--   link_bytes_s       double    how fast the fastest others are, more than twice that

with
rate as (
    select
        gpu_op.source_id,
        'Pageable' in (coalesce(src_kind, ''), coalesce(dst_kind, '')) as is_pageable,
        sum(moved.bytes) / sum(gpu_op.end_ns - gpu_op.start_ns) * 1e9 as bytes_s,
        sum(gpu_op.end_ns - gpu_op.start_ns) as copy_ns
    from memory_operation as moved
    join gpu_op using (gpu_op_id)
    where moved.copy_kind in ('HtoD', 'DtoH') and moved.bytes >= 1048576 and gpu_op.end_ns > gpu_op.start_ns
    group by gpu_op.source_id, moved.copy_kind, is_pageable
),
slowest as (
    select source_id, arg_max(bytes_s, copy_ns) as pageable_bytes_s, max(copy_ns) as most_ns
    from rate
    where is_pageable
    group by source_id
),
whole as (
    select source_id, max(bytes_s) as link_bytes_s, sum(copy_ns) as copy_ns
    from rate
    group by source_id
)
select slowest.source_id, slowest.pageable_bytes_s, whole.link_bytes_s
from slowest
join whole using (source_id)
where whole.link_bytes_s > 2 * slowest.pageable_bytes_s and 2 * slowest.most_ns > whole.copy_ns
