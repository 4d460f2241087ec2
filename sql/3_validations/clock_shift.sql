-- A row is an input in which all GPU work begins long after its launch, although the CPU had waited until nothing was queued.
--
-- The clocks of CPU and GPU were not matched: why the device is idle, waits and what changes would save cannot be trusted. Record again; a warm-up step before the recorded ones lets the profiler calibrate.

select
    source_id,
    'error' as severity,
    op_cnt as problem_cnt,
    format('none begins less than {:.3f} ms after its launch', shift_ns / 1e6) as example
from _clock_shift
where shift_ns > 0
