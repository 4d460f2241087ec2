-- A row is how far the clock of one rank is ahead of the reference's, during a stretch in which both run alike.
--
-- In an all-reduce, all-gather, reduce-scatter, all-to-all or barrier nobody can end before all have begun. So each of them
-- limits how far two clocks can be apart, and all together leave an interval: its middle is offset_ns, half of its width
-- error_ns. Where the interval would be empty the clocks drift, and there are several pieces; error_ns has besides by how much
-- the clock runs away in one, as fast as between any two of them. Inputs that name the same
-- machine share a clock unless their collectives contradict that. The reference is the clock against which the others
-- are known best. Clocks of ranks that met in no matched collective are not here.
--
-- columns:
--   rank              integer   rank of the input
--   host              varchar   its machine, NULL if not recorded
--   piece_id          bigint    number of the stretch, from 0
--   from_ns           bigint    start of the stretch on the input's own clock; the first also holds before it
--   offset_ns         bigint    how far its clock is ahead of the reference's, the origins of both files included
--   error_ns          bigint    the offset is accurate to within this much
--   drift_frac        double    how fast it has drifted since the stretch before: the offset's change by time; NULL for the first
--   collective_cnt    bigint    matched collectives in the stretch
--   reference_rank    integer   rank of the reference
--   clock_id          bigint    the clock, the same for inputs that share one
--   source_id         integer   the input, see trace_info

select
    source.rank,
    source.host,
    clock.piece_id,
    clock.from_ns,
    clock.offset_ns,
    clock.error_ns,
    (clock.offset_ns - lag(clock.offset_ns) over pieces) / nullif(clock.from_ns - lag(clock.from_ns) over pieces, 0)
        as drift_frac,
    clock.collective_cnt,
    reference.rank as reference_rank,
    clock.clock_id,
    clock.source_id
from clock
join source using (source_id)
join source as reference on reference.source_id = clock.reference_source_id
window pieces as (partition by clock.source_id order by clock.piece_id)
order by source.rank, clock.source_id, clock.piece_id
