-- A row is an operator with one set of shapes on a known device, and the least time that one call needs by the data sheet.
--
-- columns:
--   source_id   integer   the input
--   name_id     bigint    the operator
--   shape_id    bigint    its shapes
--   compute_s   double    time for its FLOP in seconds, NULL where they are not counted
--   memory_s    double    time for its bytes
--   least_s     double    the least that it can take: its products may be fewer (Winograd), its bytes may be in the cache

with
-- inputs in which products in 32 bits ran on tensor cores
tf32 as (
    select distinct source_id
    from gpu_op
    semi join (from name where regexp_matches(text, 'tf32|_s1688(gemm|fprop|dgrad|wgrad)')) as fast using (name_id)
),
rated as (
    select
        shape.*,
        peak.memory_bytes_s,
        peak.cache_bytes,
        case
            when shape.is_elementwise then peak.matrix32_flops
            when shape.value_bytes = 1 then 2 * peak.matrix16_flops
            when shape.value_bytes = 2 then peak.matrix16_flops
            when tf32.source_id is not null then peak.matrix16_flops / 2
            else peak.matrix32_flops
        end as flop_s
    from _operator_shape as shape
    join _device_peak as peak on peak.source_id = shape.source_id
    left join tf32 on tf32.source_id = shape.source_id
)
select
    source_id,
    name_id,
    shape_id,
    flop / flop_s as compute_s,
    bytes / memory_bytes_s as memory_s,
    greatest(least_flop / flop_s, if(bytes > cache_bytes, (bytes - cache_bytes) / memory_bytes_s, null)) as least_s
from rated
