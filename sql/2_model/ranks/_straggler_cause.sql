-- A row is an input that was the straggler in some of its steps: what it spent more on for most of that time, and where.
--
-- Steps are weighed by how much more, not counted: a busy machine makes a rank late by a little in many steps, and the
-- place of those says nothing about the few in which it was late by much.
--
-- columns:
--   source_id     integer   the input
--   cause         varchar   what it spent more on than the others
--   cause_ns      bigint    how much more, in all steps of this cause
--   cause_place   varchar   where its CPU was in the most of that time, NULL where no step says a place
--   place_ns      bigint    the part of cause_ns there, NULL without a place

with
placed as (
    select source_id, cause, cause_place, sum(cause_ns)::bigint as place_ns
    from straggler
    where is_straggler and cause is not null
    group by all
)
select
    source_id,
    cause,
    sum(place_ns)::bigint as cause_ns,
    first(cause_place order by place_ns desc, cause_place) filter (cause_place is not null) as cause_place,
    max(place_ns) filter (cause_place is not null) as place_ns
from placed
group by source_id, cause
qualify row_number() over (partition by source_id order by sum(place_ns) desc, cause) = 1
