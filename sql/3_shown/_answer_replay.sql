-- A row is an input: what must be known beside what is predicted of it.
--
-- A replay lasts from the start of the first warm step to the end of the last and of what was launched in it, whatever else
-- the device does meanwhile. Time in which GPU work is not recorded is in it, too.
--
-- columns:
--   source_id      integer   the input
--   has_gpu        boolean   whether it holds GPU work
--   has_launches   boolean   whether a launching call of it is recorded, NULL without GPU work
--   shift_ns       bigint    by how much its clocks of CPU and GPU disagree (_clock_shift), NULL where they do not
--   step_ns        double    how long a warm step takes (step_summary, length_ns), NULL without steps
--   turn_cnt       bigint    warm steps, those that follow one another with one number as one (adapters in turn), NULL without steps
--   missing_ns     bigint    for how long nothing is recorded of what the GPU does (rules unrecorded…), 0 for not at all
--   input_ns       bigint    how long the GPU waits for input, 0 for not at all

with
step as (
    select source_id, avg(length_ns) filter (start_ns >= coalesce(first_step_ns, start_ns)) as step_ns
    from step_summary
    left join (select source_id, first_step_ns from _steady_time) using (source_id)
    group by source_id
),
turn as (
    select source_id, count(*) filter (start_ns >= coalesce(first_step_ns, start_ns)) as turn_cnt
    from _step_turn
    left join (select source_id, first_step_ns from _steady_time) using (source_id)
    group by source_id
),
gap as (
    select
        source_id,
        coalesce(sum(saving_ns) filter (starts_with(rule, 'unrecorded')), 0)::bigint as missing_ns,
        coalesce(sum(saving_ns) filter (rule = 'late_input'), 0)::bigint as input_ns
    from _judged_gap
    group by source_id
)
select
    source.source_id,
    source.source_id in (from _source_with_gpu) as has_gpu,
    whole.has_launches,
    shift.shift_ns,
    step.step_ns,
    turn.turn_cnt,
    coalesce(gap.missing_ns, 0) as missing_ns,
    coalesce(gap.input_ns, 0) as input_ns
from source
left join _clock_shift as shift using (source_id)
left join step using (source_id)
left join turn using (source_id)
left join gap using (source_id)
left join _answer_whole as whole using (source_id)
where source.kind is not null
order by source.source_id
