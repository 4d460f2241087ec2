-- A row is one step of a rank in a pipeline: how much of it the rank neither computed nor communicated within its stage.
--
-- Adapters that are trained one after the other have a row each, as each is a flush of the pipeline.
--
-- Ranks of pipelines that `lorabench collect` ran have rows, and others that send to or receive from ranks of a group whose
-- ranks are recorded. active_ns is the union of compute and of communication that is not point to point (all-reduces of the
-- stage, …), devices added up; the rest of the step is the bubble. On CPUs operators compute, and in runs of `lorabench
-- collect` all of the phases data, h2d, forward, backward and optimizer counts. The ideal bubble of GPipe and 1F1B is
-- (p-1)/(m+p-1), with p stages and m micro-batches, which are the step's sends to the next stage (on the last one receives
-- from the one before). Runs of `lorabench collect` say m and the schedule: the ideal of two stages on a device is
-- (p-1)/(2m+p-1), of LoRAPP 1 - m/p with the micro-batches of all adapters.
--
-- columns:
--   step               bigint    number of the step
--   rank               integer   rank of the input
--   stage              bigint    stage of the rank, from 0
--   stage_cnt          bigint    stages
--   micro_batch_cnt    bigint    micro-batches without a flush between them, NULL where the ranks of sends are not recorded
--   step_ns            bigint    duration of the step, times the devices that the rank used
--   active_ns          bigint    time with compute, or with communication that is not point to point
--   bubble_frac        double    1 - active_ns / step_ns
--   ideal_frac         double    the bubble of equal stages without any cost of sending, NULL where m is not known and for
--         zero bubble schedules
--   start_ns           bigint    start of the step, on the input's own clock
--   source_id          integer   the input, see trace_info

with
stage as materialized (
    from _stage where source_id not in (from _memory_pass)
),
step as (
    select source_id, step, start_ns, end_ns
    from _step
    where source_id in (select source_id from stage)
),
-- what sends and receives is known by what it belongs to, or by its name where that is no other collective (an all-to-all
-- has such kernels, and a send of several in one call does not say what its kernels are)
called as (
    select source_id, device_id, stream_id, work_start_ns, work_end_ns, operation in ('send', 'recv') as is_p2p
    from collective
    where device_id is not null
        and work_start_ns is not null
        and operation is not null
        and operation <> 'other'
        and source_id in (select source_id from stage)
),
point_to_point as (
    select op.gpu_op_id
    from gpu_op as op
    join (select name_id, regexp_matches(text, '(?i)send_?recv') as is_named from name) as kernel using (name_id)
    asof left join called
        on called.source_id = op.source_id
        and called.device_id = op.device_id
        and called.stream_id = op.stream_id
        and called.work_start_ns <= op.start_ns
    where op.source_id in (select source_id from stage)
        and op.kind = 'kernel'
        and if(op.end_ns <= called.work_end_ns, called.is_p2p, kernel.is_named)
),
on_cpu as (
    select source_id from stage where source_id not in (select source_id from _source_with_gpu)
),
work as (
    select op.source_id, coalesce(op.device_id, -1) as device, op.start_ns, op.end_ns
    from gpu_op as op
    where op.source_id in (select source_id from stage)
        and op.kind in ('kernel', 'graph')
        and op.gpu_op_id not in (from point_to_point)
    union all
    select range.source_id, -1, range.start_ns, range.end_ns
    from range
    join name using (name_id)
    where range.source_id in (from on_cpu)
        and range.kind = 'operator'
        and not regexp_matches(name.text, '^(c10d::|record_param_comms|gloo:)')
    union all
    -- between operators is Python; in phases of ours nothing waits for another stage
    select range.source_id, -1, range.start_ns, range.end_ns
    from range
    join name using (name_id)
    where range.source_id in (from on_cpu)
        and range.source_id in (select source_id from _pipeline_run)
        and range.kind = 'annotation'
        and name.text in ('data', 'h2d', 'forward', 'backward', 'optimizer')
    union all
    select source_id, -1, work_start_ns, work_end_ns
    from collective
    where source_id in (from on_cpu) and operation not in ('send', 'recv') and work_start_ns is not null
),
marked as (
    select
        *,
        max(end_ns) over (
            partition by source_id, device order by start_ns, end_ns rows between unbounded preceding and 1 preceding
        ) as ended_ns
    from work
),
active as (
    select
        step.source_id,
        step.step,
        step.start_ns,
        sum(
            greatest(
                0,
                least(marked.end_ns, step.end_ns)
                - greatest(marked.start_ns, coalesce(marked.ended_ns, marked.start_ns), step.start_ns)
            )
        ) as active_ns,
        count(distinct marked.device) as device_cnt
    from step
    join marked
        on marked.source_id = step.source_id and marked.start_ns < step.end_ns and marked.end_ns > step.start_ns
    group by step.source_id, step.step, step.start_ns
),
-- of stage s the ranks that it sends to are those at s + 1 of its group
sent as (
    select
        collective.source_id,
        step.start_ns,
        count(*) filter (
            collective.operation = 'send' and list_position(ranks, collective.dst_rank) - 1 = stage.stage + 1
        ) as sent_cnt,
        count(*) filter (
            collective.operation = 'recv' and list_position(ranks, collective.src_rank) - 1 = stage.stage - 1
        ) as received_cnt
    from (
        select *, try_cast(group_ranks as bigint[]) as ranks, coalesce(start_ns, work_start_ns) as time_ns
        from collective
        where operation in ('send', 'recv') and src_rank is not null and dst_rank is not null
    ) as collective
    join stage using (source_id)
    asof join step
        on step.source_id = collective.source_id and step.start_ns <= collective.time_ns
    group by collective.source_id, step.start_ns
),
measured as (
    select
        step.source_id,
        step.step,
        step.start_ns,
        stage.stage,
        stage.stage_cnt,
        coalesce(
            run.micro_batch_cnt, nullif(if(stage.stage = stage.stage_cnt - 1, sent.received_cnt, sent.sent_cnt), 0)
        ) as micro_batch_cnt,
        run.source_id is not null as is_run,
        run.ideal_frac,
        (step.end_ns - step.start_ns) * coalesce(active.device_cnt, 1) as step_ns,
        coalesce(active.active_ns, 0)::bigint as active_ns
    from step
    join stage using (source_id)
    left join _pipeline_run as run on run.source_id = step.source_id
    left join active
        on active.source_id = step.source_id and active.start_ns = step.start_ns
    left join sent
        on sent.source_id = step.source_id and sent.start_ns = step.start_ns
)
select
    measured.step,
    source.rank,
    measured.stage,
    measured.stage_cnt,
    measured.micro_batch_cnt,
    measured.step_ns,
    measured.active_ns,
    1 - measured.active_ns / nullif(measured.step_ns, 0) as bubble_frac,
    if(
        measured.is_run,
        measured.ideal_frac,
        (measured.stage_cnt - 1) / (measured.micro_batch_cnt + measured.stage_cnt - 1)
    ) as ideal_frac,
    measured.start_ns,
    measured.source_id
from measured
join source using (source_id)
order by measured.step, measured.stage, source.rank, measured.source_id, measured.start_ns
