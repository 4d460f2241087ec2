-- A row is a share of what steps hung on, to be added up: by step it is critical_path, without it the page's.
--
-- The CPU's time belongs to the innermost range: to each the time in it, less that in the ranges inside it; outside of all
-- ranges what is left.
--
-- columns:
--   source_id     integer   the input
--   step_id       bigint    the step, NULL for an input without steps
--   activity      varchar   see critical_path
--   name_id       bigint    the GPU operation's name, NULL for the CPU
--   path_id       bigint    the range that owns the operation, or that the CPU was in, NULL outside all ranges
--   critical_ns   bigint    time on the critical path, less than 0 for what belongs to a range inside
--   segment_cnt   bigint    1 for a stretch, NULL for the CPU

with
cpu as (
    select source_id, step_id, path_id, critical_ns
    from _critical_range
    union all
    select source_id, step_id, outer_path_id, -critical_ns
    from _critical_range
    union all
    select source_id, step_id, null, end_ns - start_ns
    from _critical_piece
    where kind = 'cpu'
)
select
    piece.source_id,
    piece.step_id,
    if(piece.kind = 'gpu', op.kind, piece.kind)::varchar as activity,
    op.name_id,
    own.path_id,
    piece.end_ns - piece.start_ns as critical_ns,
    1::bigint as segment_cnt
from _critical_piece as piece
join gpu_op as op using (gpu_op_id)
left join _owner as own using (attribution_id)
union all
select source_id, step_id, 'cpu', null, path_id, critical_ns, null
from cpu
