-- A row is an input with kernels that were still running when the synchronization of their stream had begun on the device.
--
-- The profiler ordered them wrongly: times on that stream are off by up to the overlap.

select
    sync.source_id,
    'error' as severity,
    count(*) as problem_cnt,
    format('a kernel on stream {} ran {:.3f} us into the synchronization', any_value(sync.stream_id),
        max(op.end_ns - sync.start_ns) / 1e3) as example
from sync
join source using (source_id)
join gpu_op as op
    on op.source_id = sync.source_id
    and op.device_id = sync.device_id
    and op.stream_id = sync.stream_id
    and op.start_ns < sync.start_ns
    and op.end_ns > sync.start_ns
where sync.kind = 'stream' and op.kind = 'kernel' and kind_has_device_waits(source.kind)
group by sync.source_id
