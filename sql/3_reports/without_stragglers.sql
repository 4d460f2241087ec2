-- A row is one step of one rank: how long it would take if the ranks were alike, and how long if only this one were as it is.
--
-- By replay of what the ranks did between their matched collectives, which needs no clocks: a rank arrives when its own work is
-- done, a collective ends its transfer after the last one arrived (and the one before it in a queue has ended), and a rank goes
-- on where it had waited for the end. Who had to queue was ready when what it had launched before was done. The transfer is the
-- time of the member whose work was shortest: it waited for nobody. If ranks are alike (ideal_ns) the time between collectives,
-- computing and idle, is the mean of all ranks, and a transfer the median of those of all groups in the same place: of the step's
-- collectives of the same operation, group size and bytes the first one of each group, the second one … What takes all groups
-- long, as a network that is slow for a while, stays. For without_ns a rank does on its way to the collectives of a step in which
-- it is a straggler what the others do there on average (where it is mostly compute that makes it late, all ranks share it);
-- where its links make it late, its collectives take no longer than that; all else stays as it was. Of alone_ns the rank itself
-- and the collectives that it takes part in stay as they were.
-- Steps count from the end of the one before; of ranks with over 100,000 collectives in all the last steps are replayed. Ranks
-- in pipelines do different work and are not compared; nothing is said either where ranks do not take part in the same
-- collectives, where more than a tenth of these (of all steps or of this one) are not matched, or where the replay of what was
-- is off by more than 5 %.
--
-- columns:
--   step                  bigint    number of the step
--   rank                  integer   rank of the input
--   measured_ns           bigint    duration of the step, from the end of the one before
--   replayed_ns           bigint    mean of the ranks when they are replayed as they were
--   ideal_ns              bigint    the same if all ranks were alike; NULL where it cannot be known
--   slower_frac           double    replayed_ns / ideal_ns - 1: how much longer stragglers make the step
--   without_ns            bigint    the same if the stragglers (is_straggler) took as long as the others; NULL likewise
--   alone_ns              bigint    the same if all ranks but this one were alike; NULL likewise, and of over 64 ranks (or of many
--         collectives) for all but those with the most work of their own
--   alone_slower_frac     double    alone_ns / ideal_ns - 1: how much longer this rank alone makes it
--   without_transfer_ns   bigint    the same if collectives took no time once all ranks had arrived; NULL likewise
--   reason                varchar   why it cannot be known, NULL where it can
--   source_id             integer   the input, see trace_info

select
    replayed.step,
    source.rank,
    replayed.measured_ns,
    replayed.replayed_ns,
    replayed.ideal_ns,
    replayed.replayed_ns / nullif(replayed.ideal_ns, 0) - 1 as slower_frac,
    replayed.without_ns,
    replayed.alone_ns,
    replayed.alone_ns / nullif(replayed.ideal_ns, 0) - 1 as alone_slower_frac,
    replayed.without_transfer_ns,
    replayed.reason,
    replayed.source_id
from _replayed_rank as replayed
join source using (source_id)
order by replayed.step, source.rank, replayed.source_id
