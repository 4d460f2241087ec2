-- A row is an input of a run that was timed without a profiler, and what a step takes there.
--
-- columns:
--   source_id             integer   the input
--   unprofiled_ns         bigint    the median
--   unprofiled_mean_ns    bigint    the mean, NULL where runs of earlier versions do not say it
--   unprofiled_wait_ns    bigint    how long of it the step waits for input on average, NULL where nobody knows
--   waiting_rank          bigint    the rank that waits so long, NULL for one process

select
    source_id,
    max(try_cast(value as bigint)) filter (item = 'run: step without a profiler ns') as unprofiled_ns,
    max(try_cast(value as bigint)) filter (item = 'run: mean step without a profiler ns') as unprofiled_mean_ns,
    max(try_cast(value as bigint)) filter (item = 'run: wait for input in a step ns') as unprofiled_wait_ns,
    max(try_cast(value as bigint)) filter (item = 'run: rank that waits for input') as waiting_rank
from source_fact
where section = 'about'
group by source_id
