-- A row is a kernel or graph of a device and when it was launched. A graph has one launch: its kernels are in the order in which they ran.
--
-- needs: api_call, gpu_op, reading

select
    op.process_id,
    op.device_id,
    op.name_id as name,
    coalesce(op.launch_start_ns, op.start_ns) as start,
    coalesce(op.launch_end_ns, op.end_ns) as "end",
    coalesce(call.thread_id, -1) as thread,
    if(op.kind = 'graph', op.end_ns - op.start_ns, 0) as graph_ns,
    op.start_ns as ran,
    op.gpu_op_id as number
from gpu_op as op
semi join reading using (source_id)
left join api_call as call using (api_call_id)
where op.kind in ('kernel', 'graph')
