-- A row is a rank of several that are replayed together: what it would save if collectives took no time once all have come.
--
-- columns:
--   source_id     integer   the input
--   saving_frac   double    share of the mean step of the ranks; NULL where they cannot be replayed
--   error_frac    double    by how much the replay of what was is off
--   note          varchar   what the change is, or why nobody knows what it saves

select
    source_id,
    if(
        count(without_transfer_ns) = 0,
        null,
        greatest(0, 1 - sum(without_transfer_ns) / nullif(sum(replayed_ns) filter (without_transfer_ns is not null), 0))
    ) as saving_frac,
    abs(sum(replayed_ns) / nullif(sum(measured_ns), 0) - 1) as error_frac,
    if(
        count(without_transfer_ns) = 0,
        'all ranks are here, but ' || any_value(reason),
        'collectives take no time once all ranks have come; what ranks wait for the last one stays'
    ) as note
from _replayed_rank
where without_transfer_ns is not null or reason is not null
group by source_id
