-- A row is a value of a counter, from GPU_METRICS.
--
-- needs: batch, metric, reading, staged_name

select
    reading.source_id,
    metric.device_id,
    named.name_id,
    coalesce(batch.timestamp, batch.rawTimestamp) as start_ns,
    metric_value(batch.value, metric.is_clock) as value
from batch
cross join reading
join metric on metric.type_id = coalesce(batch.typeId, 0) and metric.metric_id = batch.metricId
join staged_name as named on named.text = metric.name
where batch.value is not null
    and is_measured(coalesce(batch.timestamp, batch.rawTimestamp), coalesce(batch.timestamp, batch.rawTimestamp))
    and abs(metric_value(batch.value, metric.is_clock)) < 1e11
