-- A row is one step of a rank in a pipeline: how much of it the rank neither computed nor communicated within its stage.
--
-- Only ranks that send to or receive from others of a group whose ranks are recorded have rows. active_ns is the union of
-- compute and of communication that is not point to point (all-reduces of the stage, …), devices added up; the rest of the
-- step is the bubble. The ideal one of GPipe and 1F1B is (p-1)/(m+p-1), with p stages and m micro-batches, which are
-- the step's sends to the next stage (on the last one receives from the one before).
--
-- columns:
--   step               bigint    number of the step
--   rank               integer   rank of the input
--   stage              bigint    stage of the rank, from 0
--   stage_cnt          bigint    stages
--   micro_batch_cnt    bigint    micro-batches, NULL where the ranks of sends are not recorded
--   step_ns            bigint    duration of the step, times the devices that the rank used
--   active_ns          bigint    time with compute, or with communication that is not point to point
--   bubble_frac        double    1 - active_ns / step_ns
--   ideal_frac         double    (p-1)/(m+p-1), NULL where m is not known
--   source_id          integer   the input, see trace_info

with
stage as materialized (
    from _stage
),
step as (
    select source_id, step, start_ns, end_ns
    from _step
    where source_id in (select source_id from stage)
),
-- what sends and receives is known by its kernel, or on CPUs by its execution
point_to_point as (
    select distinct source_id, device_id, stream_id, work_start_ns, work_end_ns
    from collective
    where operation in ('send', 'recv')
),
on_cpu as (
    select source_id from stage where source_id not in (select source_id from _source_with_gpu)
),
work as (
    select op.source_id, coalesce(op.device_id, -1) as device, op.start_ns, op.end_ns
    from gpu_op as op
    where op.source_id in (select source_id from stage)
        and op.kind in ('kernel', 'graph')
        and (op.source_id, op.device_id, op.stream_id, op.start_ns) not in (
            select (source_id, device_id, stream_id, work_start_ns)
            from point_to_point
            where work_start_ns is not null and device_id is not null
        )
    union all
    select range.source_id, -1, range.start_ns, range.end_ns
    from range
    join name using (name_id)
    where range.source_id in (from on_cpu)
        and range.kind = 'operator'
        and not regexp_matches(name.text, '^(c10d::|record_param_comms|gloo:)')
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
        stage.stage,
        stage.stage_cnt,
        nullif(if(stage.stage = stage.stage_cnt - 1, sent.received_cnt, sent.sent_cnt), 0) as micro_batch_cnt,
        (step.end_ns - step.start_ns) * coalesce(active.device_cnt, 1) as step_ns,
        coalesce(active.active_ns, 0)::bigint as active_ns
    from step
    join stage using (source_id)
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
    (measured.stage_cnt - 1) / (measured.micro_batch_cnt + measured.stage_cnt - 1) as ideal_frac,
    measured.source_id
from measured
join source using (source_id)
order by measured.step, measured.stage, source.rank, measured.source_id
