-- A row is an input with waits of a stream for an event whose record is missing from the file, or came later.
--
-- The wait points at the wrong record, or at one before the recorded window.

select
    waiting.source_id,
    'error' as severity,
    count(*) as problem_cnt,
    format('a wait on stream {} for correlation {}', any_value(waiting.stream_id),
        any_value(waiting.waits_for_correlation_id)) as example
from sync as waiting
left join (
    select call.source_id, call.correlation_id, min(call.start_ns) as start_ns
    from api_call as call
    join name using (name_id)
    where name.text like 'cudaEventRecord%'
    group by all
) as record
    on record.source_id = waiting.source_id and record.correlation_id = waiting.waits_for_correlation_id
where waiting.kind = 'stream wait'
    and waiting.waits_for_correlation_id >= 0
    and (record.start_ns is null or record.start_ns > waiting.start_ns)
group by waiting.source_id
