-- A row is a value of a counter, from GENERIC_EVENTS: there a sample is an object of numbers by the metrics' names.
--
-- needs: batch, metric, reading, staged_name

with
sample as (
    select
        typeId as type_id,
        coalesce(timestamp, rawTimestamp) as start_ns,
        unnest(map_entries(if(json_valid(data), from_json(data, '"MAP(VARCHAR, VARCHAR)"'), null))) as entry
    from batch
)
select
    reading.source_id,
    metric.device_id,
    named.name_id,
    sample.start_ns,
    metric_value(try_cast(sample.entry.value as double), metric.is_clock) as value
from sample
cross join reading
join metric on metric.type_id = sample.type_id and metric.text = sample.entry.key
join staged_name as named on named.text = metric.name
where isfinite(try_cast(sample.entry.value as double)) and is_measured(sample.start_ns, sample.start_ns)
    and abs(metric_value(try_cast(sample.entry.value as double), metric.is_clock)) < 1e11
