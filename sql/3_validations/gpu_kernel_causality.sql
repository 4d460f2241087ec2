-- A row is an input with GPU work that began before the call that launched it.
--
-- The clocks of CPU and GPU were not matched: queue and latency of launches cannot be trusted. Record again; a warm-up step before the recorded ones lets the profiler calibrate.

select
    source_id,
    'error' as severity,
    count(*) as problem_cnt,
    format('{} began {:.3f} us before its launch', arg_max(name.text, launch_start_ns - start_ns),
        max(launch_start_ns - start_ns) / 1e3) as example
from gpu_op
join name using (name_id)
where start_ns < launch_start_ns
group by source_id
