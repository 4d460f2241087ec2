-- A row is a collective of a rank that knows when it ran, with the next one on its way that was matched: itself, or the first
-- behind it.
--
-- Alone a rank takes each collective for matched: its way to one that is not is the beginning of that to the next one.
--
-- columns:
--   part_id         bigint    the collective
--   collective_id   bigint    the next one of the same group and process that was matched
--   step            bigint    the step that one is in by its match

with
next_one as (
    select
        collective.collective_id as part_id,
        first_value(
            case when matched.match_id is not null then {'collective_id': collective.collective_id, 'step': matched.step} end
            ignore nulls
        ) over (
            partition by collective.source_id, collective.process_id, collective.group_name, collective.group_ranks
            order by collective.work_start_ns, collective.collective_id
            rows between current row and unbounded following
        ) as found
    from collective
    left join matched_collective as matched using (collective_id)
    where collective.operation not in ('send', 'recv') and collective.work_start_ns is not null
)
select part_id, found.collective_id, found.step
from next_one
where found is not null
