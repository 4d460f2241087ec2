-- A row is one call of a collective operation, or a kernel of one, with what torch says about it.
--
-- needs: batch, collective_batch, kineto_thread

select
    kineto_thread.thread_id,
    batch.becomes = 'gpu_op' as is_kernel,
    batch.start_ns,
    batch.end_ns,
    coalesce(try_cast(whole(batch.device) as integer), if(is_kernel, try_cast(batch.pid as integer), null)) as device_id,
    coalesce(whole_text(batch.stream), if(is_kernel, batch.tid, null)) as stream_id,
    nullif(batch.collective_name, '') as name,
    nullif(said.dtype, '') as dtype,
    whole_written(said.in_element_cnt) as in_element_cnt,
    whole_written(said.out_element_cnt) as out_element_cnt,
    whole_written(said.group_size) as group_size,
    nullif(said.group_name, '') as group_name,
    nullif(said.group_description, '') as group_description,
    nullif(said.group_ranks, '') as group_ranks,
    nullif(said.comms_id, '') as comms_id,
    whole_written(said.seq) as seq,
    whole_written(said.src_rank) as src_rank,
    whole_written(said.dst_rank) as dst_rank
from batch
join collective_batch as said using (position)
left join kineto_thread
    on kineto_thread.pid is not distinct from batch.pid and kineto_thread.tid is not distinct from batch.tid
where (batch.name = 'record_param_comms' or (batch.becomes = 'gpu_op' and batch.collective_name is not null))
    and batch.phase = 'X'
    and is_measured(batch.start_ns, batch.end_ns)
    and (batch.becomes = 'gpu_op' or kineto_thread.thread_id is not null)
