-- A row is an input whose clock runs away from the reference's.
--
-- clock_offset aligns it in pieces, of which each is as wrong besides as the clock runs away meanwhile: few waits are known.

select
    source_id,
    'warning' as severity,
    count(*) - 1 as problem_cnt,
    format('{} in {}', said_ns(max(offset_ns) - min(offset_ns)), said_ns(max(from_ns) - min(from_ns))) as example
from clock
group by source_id
having count(*) > 1 and min(offset_ns) <> max(offset_ns)
