-- A row is one rule of an input that found something: all that its places save together, for they share no nanosecond.
--
-- The place named is the one that saves most; of kernels whose saving is not known the one that the verdict names.
--
-- columns:
--   source_id         integer   the input
--   rule              varchar   the rule
--   saving_ns         bigint    what all its places save, NULL where that is not known
--   place_cnt         bigint    places, without those that `finding` leaves out as too small
--   place             varchar   the place named, NULL outside all ranges
--   place_saving_ns   bigint    what it saves alone
--   evidence          varchar   what speaks for it
--   advice            varchar   what to do there
--   is_predicted      boolean   whether all savings are of a replay, not limits

with
weighed as (
    select
        found.*,
        (
            coalesce(found.saving_ns, 0),
            found.place is not distinct from kernel.short_name,
            found.occurrence_cnt,
            found.place
        ) as weight,
        coalesce(
            found.saving_ns
            >= (select value from threshold where name = 'least_frac') * (steady.end_ns - steady.start_ns),
            true
        ) as is_listed
    from _predicted_finding as found
    left join _steady_kernel as kernel using (source_id)
    left join _steady_time as steady using (source_id)
    where found.saving_ns > 0 or found.rule in ('dominant_kernel', 'unrecorded_graph', 'unrecorded_work', 'uneven_steps')
)
select
    source_id,
    rule,
    sum(saving_ns)::bigint as saving_ns,
    greatest(1, count(*) filter (is_listed)) as place_cnt,
    nullif(arg_max(coalesce(place, ''), weight), '') as place,
    arg_max(saving_ns, weight)::bigint as place_saving_ns,
    arg_max(evidence, weight) as evidence,
    arg_max(advice, weight) as advice,
    bool_and(is_predicted) as is_predicted
from weighed
group by source_id, rule
