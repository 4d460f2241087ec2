-- A row is one bin of queue_length of one of the four streams of an input with the longest queues.
--
-- columns:
--   source_id         integer    the input
--   stream            varchar    device and stream
--   start_ns          bigint     begin of the bin, from the input's first GPU work on
--   mean_queue_cnt    double     work that was launched and had not begun, on average
--   waiting_ns        bigint     summed waiting time in the bin

select
    queue_length.source_id,
    'device ' || device_id || ', stream ' || stream_id as stream,
    queue_length.start_ns - begin.begin_ns as start_ns,
    mean_queue_cnt,
    waiting_ns
from queue_length
join (select source_id, min(start_ns) as begin_ns from _stream_work group by source_id) as begin using (source_id)
semi join (
    select source_id, device_id, stream_id
    from queue_length
    group by source_id, device_id, stream_id
    having sum(waiting_ns) > 0
    qualify row_number() over (partition by source_id order by sum(waiting_ns) desc, device_id, stream_id) <= 4
) as longest using (source_id, device_id, stream_id)
order by queue_length.source_id, start_ns, stream
