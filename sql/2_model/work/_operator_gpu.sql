-- A row is an operator's call and the GPU work that was launched during it on its own thread.
--
-- Launching calls of a thread follow one another. So those that lie in an operator are the ones that end before its end, less
-- those that begin before its start: a call across a border counts in neither or in both.
--
-- columns:
--   range_id          bigint    the call
--   source_id         integer   the input
--   name_id           bigint    name of the operator
--   shape_id          bigint    its inputs, see range, NULL where not recorded
--   text_id           bigint    its text as the file has it
--   cpu_ns            bigint    time on the CPU, with what it called
--   self_cpu_ns       bigint    without the operators and ranges inside
--   gpu_ns            hugeint   GPU work launched during the call on its thread
--   self_gpu_ns       hugeint   without what operators inside launched
--   backward_gpu_ns   hugeint   GPU work of its backward, by sequence number, and of other threads in its window

with
launch as (
    select
        call.source_id,
        call.thread_id,
        op.launch_start_ns,
        op.launch_end_ns,
        sum(op.end_ns - op.start_ns) as gpu_ns
    from gpu_op as op
    join (
        from api_call
        semi join (from range where kind = 'operator') as operator using (source_id, thread_id)
    ) as call using (api_call_id)
    group by all
),
begun as (
    select
        *,
        sum(gpu_ns) over (
            partition by source_id, thread_id order by launch_start_ns rows unbounded preceding
        ) as total_ns
    from launch
),
ended as (
    select
        *,
        sum(gpu_ns) over (
            partition by source_id, thread_id order by launch_end_ns rows unbounded preceding
        ) as total_ns
    from launch
),
call as (
    select range_id, source_id, name_id, shape_id, text_id, thread_id, start_ns, end_ns, covered_ns
    from range
    where kind = 'operator'
),
until_end as (
    select call.*, coalesce(ended.total_ns, 0) as until_end_ns
    from call
    asof left join ended
        on ended.source_id = call.source_id
        and ended.thread_id = call.thread_id
        and ended.launch_end_ns <= call.end_ns
),
both_ends as (
    select until_end.*, until_end.until_end_ns - coalesce(begun.total_ns, 0) as gpu_ns
    from until_end
    asof left join begun
        on begun.source_id = until_end.source_id
        and begun.thread_id = until_end.thread_id
        and begun.launch_start_ns < until_end.start_ns
),
own as (
    select operator_id as range_id, sum(end_ns - start_ns) as self_gpu_ns
    from gpu_op
    where operator_id is not null
    group by operator_id
)
select
    both_ends.range_id,
    both_ends.source_id,
    both_ends.name_id,
    both_ends.shape_id,
    both_ends.text_id,
    both_ends.end_ns - both_ends.start_ns as cpu_ns,
    both_ends.end_ns - both_ends.start_ns - both_ends.covered_ns as self_cpu_ns,
    both_ends.gpu_ns,
    coalesce(own.self_gpu_ns, 0) as self_gpu_ns,
    coalesce(measure.gpu_op_ns, 0) - both_ends.gpu_ns as backward_gpu_ns
from both_ends
left join own using (range_id)
left join range_measure as measure using (range_id)
