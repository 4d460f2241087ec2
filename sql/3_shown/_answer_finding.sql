-- A row is a rule that found something, as the answer of an input says it.
--
-- What ranks lose to stragglers is said once for all inputs of a kind (_answer_straggler), by each that does not say the same
-- by a rule of its own.
--
-- columns:
--   source_id         integer   the input
--   rule              varchar   the rule
--   saving_ns         bigint    what all its places save, NULL where that is not known
--   place_cnt         bigint    places; of stragglers ranks
--   place             varchar   the place named, NULL outside all ranges
--   place_saving_ns   bigint    what it saves alone
--   evidence          varchar   what speaks for it
--   advice            varchar   what to do there
--   is_predicted      boolean   whether all savings are of a replay, not limits
--   is_once           boolean   whether it is paid once, as the first call that makes CUDA ready
--   within            varchar   what is around the places that save most, see _answer_rule
--   are_in_turn       boolean   whether ranks are late in turn, NULL of other rules
--   severity          varchar   'high', 'medium' or 'low': by the share of the mean window (_mean_window)

with
straggler as (
    select source.source_id, told.* exclude (kind, told_by)
    from _answer_straggler as told
    join source using (kind)
    where told.told_by is distinct from source.source_id
),
found as (
    select *
    from _answer_rule
    where rule <> 'straggler_rank'
    union all by name
    select *
    from straggler
)
select found.*, severity_of(found.rule, found.saving_ns / mean.window_ns) as severity
from found
left join _mean_window as mean using (source_id)
