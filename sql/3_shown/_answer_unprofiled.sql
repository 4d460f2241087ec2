-- A row is an input, and what a step takes in the run that it is of, timed without a profiler: NULL where that says nothing.
--
-- columns:
--   source_id            integer   the input
--   unprofiled_ns        bigint    the median
--   unprofiled_mean_ns   bigint    the mean; runs of earlier versions do not say it
--   unprofiled_wait_ns   bigint    how long a step waits for input on average
--   waiting_step_ns      bigint    how long those steps take on average, none that evaluates among them
--   waiting_rank         bigint    the rank that waits so long, NULL for one process

select
    source.source_id,
    try_cast(run.said['step without a profiler ns'] as bigint) as unprofiled_ns,
    try_cast(run.said['mean step without a profiler ns'] as bigint) as unprofiled_mean_ns,
    try_cast(run.said['wait for input in a step ns'] as bigint) as unprofiled_wait_ns,
    try_cast(run.said['step that waits for input ns'] as bigint) as waiting_step_ns,
    try_cast(run.said['rank that waits for input'] as bigint) as waiting_rank
from source
left join _run_facts as run using (source_id)
