-- A row is an input: all that was recorded of it, on the CPU as well.
--
-- columns:
--   source_id      integer   the input
--   whole_ns       bigint    from the start of the first range or CUDA call to the end of the last, NULL without any; without
--         GPU work calls of the operating system and samples count as well
--   process_cnt    bigint    processes with GPU work
--   has_launches   boolean   whether a launching call of GPU work is recorded, NULL without GPU work

with
recorded as (
    select source_id, max(end_ns) - min(start_ns) as whole_ns
    from (
        select source_id, min(start_ns) as start_ns, max(end_ns) as end_ns from range group by source_id
        union all
        select source_id, min(start_ns), max(end_ns) from api_call group by source_id
        union all
        select source_id, min(start_ns), max(end_ns)
        from (
            select source_id, start_ns, end_ns from os_call
            union all
            select source_id, start_ns, start_ns from sampled_frame where depth = 0
        )
        where source_id not in (select source_id from gpu_op)
        group by source_id
    )
    group by source_id
),
working as (
    select source_id, count(distinct process_id) as process_cnt
    from _stream_work
    group by source_id
),
launched as (
    select source_id, count(api_call_id) > 0 as has_launches
    from gpu_op
    group by source_id
)
select source.source_id, recorded.whole_ns, coalesce(working.process_cnt, 0) as process_cnt, launched.has_launches
from source
left join recorded using (source_id)
left join working using (source_id)
left join launched using (source_id)
