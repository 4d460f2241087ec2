-- A row is one rule of an input that found something: all that its places save together, for they share no nanosecond.
--
-- The place named is the one that saves most; of kernels whose saving is not known the one that the verdict names.
--
-- columns:
--   source_id         integer   the input
--   rule              varchar   the rule
--   saving_ns         bigint    what all its places save, NULL where that is not known
--   place_cnt         bigint    places
--   place             varchar   the place named, NULL outside all ranges
--   place_saving_ns   bigint    what it saves alone
--   evidence          varchar   what speaks for it
--   advice            varchar   what to do there
--   is_predicted      boolean   whether all savings are of a replay, not limits
--   is_once           boolean   whether none of its places costs anything again in a longer run
--   within            varchar   the innermost path around the places that save most of it together; '' without one (that a
--                     step has them says nothing), NULL where the place named is no path of ranges

with
weighed as (
    select
        found.*,
        (
            coalesce(found.saving_ns, 0),
            found.place is not distinct from kernel.short_name,
            found.occurrence_cnt,
            found.place
        ) as weight
    from _predicted_finding as found
    left join _steady_kernel as kernel using (source_id)
    where found.saving_ns > 0 or found.rule in ('dominant_kernel', 'unrecorded_graph', 'unrecorded_work', 'uneven_steps')
),
rules as (
    select
        source_id,
        rule,
        sum(saving_ns)::bigint as saving_ns,
        count(*) as place_cnt,
        nullif(arg_max(coalesce(place, ''), weight), '') as place,
        arg_max(saving_ns, weight)::bigint as place_saving_ns,
        arg_max(evidence, weight) as evidence,
        arg_max(advice, weight) as advice,
        bool_and(is_predicted) as is_predicted,
        coalesce(bool_and(contains(advice, 'paid once')) filter (saving_ns > 0), false) as is_once
    from weighed
    group by source_id, rule
),
around as (
    select source_id, rule, array_to_string(names[:depth], '/') as path, depth, sum(saving_ns) as saving_ns
    from (
        select source_id, rule, saving_ns, string_split(place, '/') as names, unnest(range(1, len(names) + 1)) as depth
        from weighed
        where place is not null
    )
    group by all
),
most as (
    select around.source_id, around.rule, arg_max(around.path, around.depth) as path
    from around
    join rules using (source_id, rule)
    where 2 * around.saving_ns > rules.saving_ns
        and (around.source_id, around.path) not in (select (source_id, place) from _finding_place where is_around)
    group by all
)
select rules.*, if(rules.place is null or named.place is not null, null, coalesce(most.path, '')) as within
from rules
left join most using (source_id, rule)
left join _finding_place as named on named.source_id = rules.source_id and named.place = rules.place and not named.is_around
