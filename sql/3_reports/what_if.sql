-- A row is one change and what it would save, by replay of the trace with it; the largest saving first.
--
-- The standard changes; `lorabench what-if INPUT --change …` asks for others and combines them. A change is what its note
-- says and nothing else: what it costs elsewhere (other kernels, more memory) is not in it. NULL where one rank cannot
-- know: communication ends when all ranks have come. With all ranks here hide-communication=* is known: that collectives take no
-- time once all have come (without_stragglers), a share of the mean step of the ranks.
--
-- columns:
--   change              varchar   as `lorabench what-if --change` takes it
--   place               varchar   what is changed: a range path, kernels by name or class, '*' for everything
--   step_ns             bigint    the mean step with the change, its GPU work included; the recording where it has no steps
--   saving_ns           bigint    what it saves of each step
--   saving_frac         double    as a fraction of the step
--   replay_error_frac   double    the largest error of a step when the trace is replayed unchanged
--   step_cnt            bigint    number of steps that are averaged, NULL for a recording without
--   note                varchar   what the change is
--   source_id           integer   the input, see trace_info
--   rank                integer   rank of the input, NULL if not recorded

with
error as (
    select source_id, max(abs(error_frac)) as error_frac, count(step) > 0 as has_steps
    from replay
    group by source_id
),
predicted as (
    select
        predicted.change,
        predicted.place,
        if(hidden.source_id is null, predicted.step_ns, (whole.step_ns * (1 - hidden.saving_frac))::bigint) as step_ns,
        if(
            hidden.source_id is null,
            predicted.saving_ns / predicted.step_cnt,
            whole.step_ns * hidden.saving_frac
        )::bigint as saving_ns,
        coalesce(hidden.saving_frac, predicted.saving_ns / nullif(predicted.window_ns, 0)) as saving_frac,
        hidden.error_frac,
        predicted.step_cnt,
        coalesce(hidden.note, predicted.note) as note,
        predicted.source_id
    from predicted_change as predicted
    join _mean_step as whole on whole.source_id = predicted.source_id
    left join _hidden_communication as hidden
        on hidden.source_id = predicted.source_id and predicted.change = 'hide-communication=*'
)
select
    predicted.change,
    predicted.place,
    predicted.step_ns,
    predicted.saving_ns,
    predicted.saving_frac,
    coalesce(predicted.error_frac, error.error_frac) as replay_error_frac,
    if(error.has_steps, predicted.step_cnt, null)::bigint as step_cnt,
    predicted.note,
    predicted.source_id,
    source.rank
from predicted
join source on source.source_id = predicted.source_id
left join error on error.source_id = predicted.source_id
order by predicted.source_id, predicted.saving_ns desc nulls last, predicted.change
