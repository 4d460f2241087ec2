-- A row is an input whose clocks of CPU and GPU were not matched: its GPU work lies earlier or later than it was.
--
-- Earlier where work begins well before its launch, again and again: with a queue in front of it work can be too early
-- without being seen to be, so a hundredth of it suffices. Later where nothing at all begins soon after its launch, though
-- again and again a call had waited for the GPU, whose stream had nothing left then:
--
--     CPU  [synchronize][launch a]                         the stream is empty when a is launched
--     GPU                               shift     [a]      and yet it begins late, as everything does
--
-- columns:
--   source_id   integer   the input
--   shift_ns    bigint    by how much at least, below 0 where the GPU's times are too early
--   op_cnt      bigint    operations that say so

with
launched as (
    select
        gpu_op.source_id,
        count(*) as op_cnt,
        count(*) filter (gpu_op.start_ns < gpu_op.launch_start_ns) as early_cnt,
        min(gpu_op.start_ns - gpu_op.launch_start_ns) as least_ns
    from gpu_op
    where gpu_op.launch_start_ns is not null
    group by gpu_op.source_id
    having least_ns < -20000 and early_cnt >= 5 and 100 * early_cnt >= op_cnt or least_ns > 1000000 and op_cnt >= 100
),
waited as (
    select call.source_id, call.thread_id, call.end_ns
    from api_call as call
    semi join (from launched where least_ns > 0) as late using (source_id)
    join name using (name_id)
    where not call.is_duplicate and regexp_matches(name.text, '^(cuda|cu|hip)(DeviceSynchronize|CtxSynchronize|StreamSynchronize)')
),
next as (
    select distinct waited.source_id, waited.thread_id, call.start_ns
    from waited
    asof join (
        select source_id, thread_id, start_ns
        from api_call
        semi join gpu_op using (api_call_id)
        where source_id in (select source_id from waited)
    ) as call
        on call.source_id = waited.source_id and call.thread_id = waited.thread_id and waited.end_ns <= call.start_ns
),
emptied as (
    select source_id, count(*) as wait_cnt
    from next
    group by source_id
)
select launched.source_id, launched.least_ns as shift_ns, if(launched.least_ns < 0, launched.early_cnt, launched.op_cnt) as op_cnt
from launched
left join emptied using (source_id)
where launched.least_ns < 0 or emptied.wait_cnt >= 5
