-- A row is one call of a collective operation, or a kernel of one, with what torch says about it.

select
    kineto_thread.thread_id,
    batch.becomes = 'gpu_op' as is_kernel,
    batch.start_ns,
    batch.end_ns,
    coalesce(try_cast(whole(batch.device) as integer), if(is_kernel, try_cast(batch.pid as integer), null)) as device_id,
    coalesce(whole_text(batch.stream), if(is_kernel, batch.tid, null)) as stream_id,
    nullif(batch.collective.name, '') as name,
    nullif(batch.collective.dtype, '') as dtype,
    whole(batch.collective.in_element_cnt) as in_element_cnt,
    whole(batch.collective.out_element_cnt) as out_element_cnt,
    whole(batch.collective.group_size) as group_size,
    nullif(batch.collective.group_name, '') as group_name,
    nullif(batch.collective.group_description, '') as group_description,
    nullif(batch.collective.group_ranks, '') as group_ranks,
    nullif(batch.collective.comms_id, '') as comms_id,
    whole(batch.collective.seq) as seq,
    whole(batch.collective.src_rank) as src_rank,
    whole(batch.collective.dst_rank) as dst_rank
from batch
left join kineto_thread
    on kineto_thread.pid is not distinct from batch.pid and kineto_thread.tid is not distinct from batch.tid
where (batch.name = 'record_param_comms' or (batch.becomes = 'gpu_op' and batch.collective.name is not null))
    and batch.phase = 'X'
    and is_measured(batch.start_ns, batch.end_ns)
    and (batch.becomes = 'gpu_op' or kineto_thread.thread_id is not null)
