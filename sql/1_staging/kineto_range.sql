-- A row is one operator, record_function block or Python frame.
--
-- An operator that names the thread of its forward pass is a backward node, and so is one that is named as one: the nodes that
-- add gradients up have no forward, and traces of 2021 no sequence numbers. Those have the ranges that torch itself opens among
-- the operators, too: the profiler's steps, the optimizer's, the data loader's.
--
-- needs: batch, kineto_thread, reading, staged_name

select
    reading.source_id,
    if(
        regexp_matches(batch.name, '^(ProfilerStep#|Optimizer\.(step|zero_grad)#|enumerate\(DataLoader\)#)'),
        'annotation',
        batch.kind
    ) as kind,
    'Complete' as style,
    batch.position,
    kineto_thread.thread_id,
    staged_name.name_id as text_id,
    batch.start_ns,
    batch.end_ns,
    if(whole(batch.sequence_number) >= 0, whole(batch.sequence_number), null) as sequence_number,  -- -1 of Ascend is none
    coalesce(
        whole(batch.forward_thread) > 0 and whole(batch.sequence_number) >= 0
        or batch.kind = 'operator'
        and regexp_matches(batch.name, '^(autograd::engine::evaluate_function: |torch::autograd::|[A-Za-z_]\w*Backward\d*$)'),
        false
    ) as is_backward,
    shape.name_id as shape_id
from batch
cross join reading
join staged_name on staged_name.text = coalesce(batch.name, '')
left join staged_name as shape on shape.text = batch.shape
join kineto_thread
    on kineto_thread.pid is not distinct from batch.pid and kineto_thread.tid is not distinct from batch.tid
where batch.becomes = 'range'
    and is_measured(batch.start_ns, batch.end_ns)
