-- A row is one phase of training: how long the CPU was in it, and what the GPU did for it.
--
-- Of the steps that count (steady_state), or of all that was recorded where no steps are found. Phases are told by what
-- ranges mean, see step_summary; where no range says forward or backward, by the backward nodes of autograd. GPU work belongs to
-- the phase that launched it, whenever it ran: what autograd's thread launches to the backward, what checkpointing computes
-- again (below a range named recompute) to a row of its own. The rows of an input add up to all of its GPU work, and to the
-- length of its steps on the CPU. An input of which no phase is known has no rows.
--
-- columns:
--   phase         varchar   'data', 'h2d' (copies to the device), 'no_grad' (a forward without gradients: a reference, a teacher,
--         an evaluation), 'forward', 'backward' (without 'recompute'), 'recompute', 'optimizer', 'between' (steps) or 'other'
--         (zero_grad among it)
--   cpu_ns        bigint    time of the CPU in it, NULL without steps
--   cpu_frac      double    cpu_ns as a fraction of the steps
--   gpu_op_cnt    bigint    GPU operations that it launched
--   gpu_op_ns     bigint    their summed duration
--   gpu_op_frac   double    gpu_op_ns as a fraction of all GPU work in this time, NULL without
--   source_id     integer   the input, see trace_info
--   rank          integer   rank of the input, NULL if not recorded

with
by_set as (
    select op.source_id, op.attribution_id, count(*) as gpu_op_cnt, sum(op.end_ns - op.start_ns)::bigint as gpu_op_ns
    from gpu_op as op
    join _steady_time as steady using (source_id)
    where op.start_ns >= steady.start_ns and op.start_ns < steady.end_ns
    group by op.source_id, op.attribution_id
),
gpu as (
    select
        by_set.source_id,
        coalesce(own.phase, 'other') as phase,
        sum(by_set.gpu_op_cnt)::bigint as gpu_op_cnt,
        sum(by_set.gpu_op_ns)::bigint as gpu_op_ns
    from by_set
    left join _set_phase as own using (source_id, attribution_id)
    group by by_set.source_id, coalesce(own.phase, 'other')
),
known as (
    select
        source_id,
        wall_ns,
        between,
        data,
        h2d,
        no_grad,
        forward,
        backward - coalesce(recompute, 0) as backward,
        recompute,
        optimizer
    from _phase_work
),
named as (
    unpivot known
    on between, data, h2d, no_grad, forward, backward, recompute, optimizer
    into name phase value cpu_ns
),
cpu as (
    select source_id, phase, cpu_ns, cpu_ns / nullif(wall_ns, 0) as cpu_frac
    from named
    where cpu_ns > 0
    union all
    select known.source_id, 'other', greatest(0, any_value(known.wall_ns) - coalesce(sum(named.cpu_ns), 0))::bigint,
        greatest(0, any_value(known.wall_ns) - coalesce(sum(named.cpu_ns), 0)) / nullif(any_value(known.wall_ns), 0)
    from known
    left join named using (source_id)
    group by known.source_id
),
told as (
    select source_id
    from cpu
    where phase not in ('between', 'other')
    union
    select source_id
    from gpu
    where phase <> 'other'
)
select
    phase,
    cpu.cpu_ns,
    cpu.cpu_frac,
    coalesce(gpu.gpu_op_cnt, 0) as gpu_op_cnt,
    coalesce(gpu.gpu_op_ns, 0) as gpu_op_ns,
    gpu.gpu_op_ns / nullif(sum(gpu.gpu_op_ns) over (partition by source_id), 0) as gpu_op_frac,
    source_id,
    source.rank
from cpu
full join gpu using (source_id, phase)
join source using (source_id)
semi join told using (source_id)
order by
    source_id,
    list_position(['data', 'h2d', 'no_grad', 'forward', 'backward', 'recompute', 'optimizer', 'between', 'other'], phase)
