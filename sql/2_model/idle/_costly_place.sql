-- A row is a place of late work or of a wait, of those of an input that cost most, with a number.
--
-- columns:
--   number       bigint    its number, over all inputs
--   source_id    integer   the input
--   rule         varchar   the rule that is blamed for its gaps, see _blamed_place
--   place        varchar   its place, NULL outside all ranges
--   idle_ns      double    length of its gaps

select
    row_number() over (order by source_id, saving_ns desc, rule, place) as number,
    source_id,
    rule,
    place,
    mean_ns * occurrence_cnt as idle_ns
from _blamed_place
where rule in (
    'long_idle_gap', 'long_dependency', 'host_work', 'launch_bound_range', 'blocking_copy', 'pageable_async_copy', 'synchronisation'
)
qualify row_number() over (
    partition by source_id, rule in ('blocking_copy', 'pageable_async_copy', 'synchronisation')
    order by saving_ns desc, rule, place
) <= 16
