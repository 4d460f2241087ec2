-- A row is an input whose clock drifts from the reference's.
--
-- clock_offset aligns it in pieces, each of which is also off by as much as the clock drifts meanwhile: few waits are known.
-- Clocks drift by millionths. A hundredth or more is no clock: these are not ranks of one run, or collectives were
-- matched that do not belong together, as where no group is recorded.

with
piece as (
    select
        source_id,
        count(*) as piece_cnt,
        max(offset_ns) - min(offset_ns) as apart_ns,
        max(from_ns) - min(from_ns) as length_ns,
        apart_ns > 0.01 * length_ns as is_no_clock
    from clock
    group by source_id
)
select
    source_id,
    if(is_no_clock, 'error', 'warning') as severity,
    piece_cnt - 1 as problem_cnt,
    format('{} in {}', said_ns(apart_ns), said_ns(length_ns))
    || if(is_no_clock, ', more than clocks drift: is it a rank of this run, are its groups recorded?', '')
        as example
from piece
where piece_cnt > 1 and apart_ns > 0
