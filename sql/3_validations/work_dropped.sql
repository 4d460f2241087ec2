-- A row is an input with launches whose GPU work is not in the file, though that of later ones is.
--
-- The recorder dropped it (its buffers were full), something removed it from the file, or the calls failed. Meanwhile the GPU seems to be idle: record a shorter part again.

select
    source_id,
    'warning' as severity,
    dropped_cnt as problem_cnt,
    format('{:,} of {:,} kernel launches have no GPU work, though later ones have', dropped_cnt, launch_cnt) as example
from _work_dropped
