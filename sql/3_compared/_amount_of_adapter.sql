-- A row is an operation on a GPU of an adapter, and what adapter_summary adds up of it.
--
-- columns:
--   source_id    integer   the input
--   process      bigint    as in _timed_op
--   at_ns        bigint    as in _timed_op
--   key          varchar   adapter and direction, with the character 31 between them
--   gpu_op_ns    bigint    how long it took
--   gpu_op_cnt   integer   1

select
    op.source_id,
    op.process,
    op.at_ns,
    concat_ws(chr(31), place.adapter, reached.direction) as key,
    op.gpu_op_ns,
    1 as gpu_op_cnt
from _timed_op as op
join _lora_reach as reached using (attribution_id)
join _lora_path as place using (path_id)
where place.adapter is not null and place.part <> 'base'
