-- A row is an input with waits for an event that do not say which record of the event they wait for.
--
-- Dependencies between streams cannot be followed there; idle_gap still says dependency, but not on what.

select
    source_id,
    'error' as severity,
    count(*) as problem_cnt,
    format('a wait for an event on stream {} at {} ns', any_value(stream_id), min(start_ns)) as example
from sync
join source using (source_id)
where sync.kind in ('stream wait', 'event') and kind_has_device_waits(source.kind) and coalesce(waits_for_correlation_id, -1) < 0
group by source_id
