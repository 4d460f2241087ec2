-- A row is one kind of memory operation on the GPU: copies by direction, memsets.
--
-- Bytes are those the operation moved or set; for a copy whose size the file lacks they are NULL and left out.
--
-- columns:
--   operation_name   varchar   '[CUDA memcpy HtoD]' … (nsys) or 'Memcpy HtoD (Pinned -> Device)' … (Kineto)
--   copy_kind        varchar   'HtoD', 'DtoH', 'DtoD', 'PtoP' …, NULL for memsets
--   operation_cnt    bigint    operations
--   operation_ns     bigint    their summed duration
--   operation_frac   double    operation_ns as a fraction of all memory operations of the input
--   mean_ns          double    mean duration of an operation
--   median_ns        double    median, interpolated
--   min_ns           bigint    shortest
--   max_ns           bigint    longest
--   stddev_ns        double    sample standard deviation, 0 for a single one
--   bytes            bigint    bytes in all
--   mean_bytes       double    mean size
--   median_bytes     double    median size, interpolated
--   min_bytes        bigint    smallest
--   max_bytes        bigint    largest
--   stddev_bytes     double    sample standard deviation, 0 for a single one
--   source_id        integer   the input, see trace_info
--   rank             integer   rank of the input, NULL if not recorded

select
    name.text as operation_name,
    moved.copy_kind,
    count(*) as operation_cnt,
    sum(end_ns - start_ns)::bigint as operation_ns,
    sum(end_ns - start_ns) / nullif(sum(sum(end_ns - start_ns)) over (partition by source_id), 0) as operation_frac,
    avg(end_ns - start_ns) as mean_ns,
    median(end_ns - start_ns) as median_ns,
    min(end_ns - start_ns) as min_ns,
    max(end_ns - start_ns) as max_ns,
    sample_stddev(end_ns - start_ns) as stddev_ns,
    sum(moved.bytes)::bigint as bytes,
    avg(moved.bytes) as mean_bytes,
    median(moved.bytes) as median_bytes,
    min(moved.bytes) as min_bytes,
    max(moved.bytes) as max_bytes,
    sample_stddev(moved.bytes) as stddev_bytes,
    source_id,
    any_value(source.rank) as rank
from memory_operation as moved
join gpu_op using (gpu_op_id)
join name using (name_id)
join source using (source_id)
group by source_id, name.text, moved.copy_kind
order by source_id, operation_ns desc, operation_name
