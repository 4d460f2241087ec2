-- A row is a range around a part of a LoRA layer that shapes show, or around the node of its backward.
--
-- A node's forward is the last operator with its sequence number to begin before it; that its gradient is as wide as what
-- the part computes says that no other has the number.
--
-- needs: low_rank_part, staged_name, staged_range

with
node as (
    select
        staged_range.thread_id,
        staged_range.start_ns,
        staged_range.end_ns,
        staged_range.sequence_number,
        try_cast(try_cast(string_split(shape.text, '|')[1] as json) as double[][])[1][-1] as result_width
    from staged_range
    join staged_name as name on name.name_id = staged_range.text_id
    join staged_name as shape on shape.name_id = staged_range.shape_id
    where staged_range.is_backward and regexp_matches(name.text, '^(Mm|Addmm|Linear|Bmm|MatMul4Bit|MatMul8bit(Lt|Fp))Backward\d*$')
),
numbered as (
    select thread_id, start_ns, end_ns, sequence_number
    from staged_range
    where kind = 'operator'
        and not is_backward
        and sequence_number in (select sequence_number from node)
),
forward as (
    select
        node.thread_id,
        node.start_ns,
        node.end_ns,
        node.result_width,
        numbered.thread_id as forward_thread_id,
        numbered.start_ns as forward_start_ns,
        numbered.end_ns as forward_end_ns
    from node
    asof join numbered on numbered.sequence_number = node.sequence_number and numbered.start_ns <= node.start_ns
),
-- what runs forward inside autograd's engine computes again what was not kept
engine as (
    select staged_range.thread_id, staged_range.start_ns, staged_range.end_ns
    from staged_range
    join staged_name as name on name.name_id = staged_range.text_id
    where staged_range.kind = 'operator' and name.text like 'autograd::engine::evaluate\_function: %' escape '\'
),
found as (
    select
        part.thread_id, part.start_ns, part.end_ns,
        part.module || if(part.end_ns <= engine.end_ns, ' recompute', '') || '/' || part.part as name
    from low_rank_part as part
    asof left join engine on engine.thread_id = part.thread_id and engine.start_ns <= part.start_ns
    union all
    select forward.thread_id, forward.start_ns, forward.end_ns, part.module || ' backward/' || part.part
    from forward
    asof join low_rank_part as part
        on part.thread_id = forward.forward_thread_id and part.start_ns <= forward.forward_start_ns
    where forward.forward_end_ns <= part.end_ns and forward.result_width = part.result_width
)
select thread_id, start_ns, end_ns, name
from found
