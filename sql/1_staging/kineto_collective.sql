-- A row is one collective operation.

select
    reading.source_id,
    kineto_thread.thread_id,
    batch.start_ns,
    batch.end_ns,
    batch.collective.name as name,
    batch.collective.dtype as dtype,
    whole(batch.collective.in_element_cnt) as in_element_cnt,
    whole(batch.collective.out_element_cnt) as out_element_cnt,
    whole(batch.collective.group_size) as group_size
from batch
cross join reading
join kineto_thread
    on kineto_thread.pid is not distinct from batch.pid and kineto_thread.tid is not distinct from batch.tid
where batch.name = 'record_param_comms' and batch.phase = 'X' and is_measured(batch.start_ns, batch.end_ns)
