-- A row is one of the three CUDA calls in which the CPU is longest before an input's first GPU work and behind its last.
--
-- Of an input without GPU work all calls count. Of several threads the times are added up.
--
-- columns:
--   source_id    integer   the input
--   api_name     varchar   the call
--   call_ns      bigint    how long the CPU is in it there
--   call_cnt     bigint    calls

with
work as (
    select source_id, min(start_ns) as start_ns, max(end_ns) as end_ns
    from gpu_op
    group by source_id
),
outside as (
    select
        call.source_id,
        call.name_id,
        if(
            work.source_id is null,
            call.end_ns - call.start_ns,
            greatest(0, least(call.end_ns, work.start_ns) - call.start_ns)
            + greatest(0, call.end_ns - greatest(call.start_ns, work.end_ns))
        ) as call_ns
    from api_call as call
    left join work using (source_id)
    where not call.is_duplicate
)
select outside.source_id, name.text as api_name, sum(outside.call_ns)::bigint as call_ns, count(*) as call_cnt
from outside
join name using (name_id)
where outside.call_ns > 0
group by outside.source_id, name.text
qualify row_number() over (partition by outside.source_id order by sum(outside.call_ns) desc, name.text) <= 3
order by outside.source_id, call_ns desc, api_name
