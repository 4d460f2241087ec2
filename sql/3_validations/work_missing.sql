-- A row is an input whose last launches have no GPU work.
--
-- The recording ended while the GPU was behind: wait for it (torch.cuda.synchronize()) before the profiler stops. Shares, steps and savings are those of what is there.

select
    source_id,
    'warning' as severity,
    missing_cnt as problem_cnt,
    format('the last {:,} of {:,} kernel launches have no GPU work: the recording ended before it', missing_cnt, launch_cnt)
        as example
from _work_missing
