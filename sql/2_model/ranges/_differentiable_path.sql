-- A row is a name path of operators that can be differentiated: most of its ranges have a sequence number of autograd.
--
-- Backward nodes compute without one. What has one in a node runs the forward again (activation checkpointing), unless the
-- backward is differentiated itself (create_graph=True): then of the operators of a name in nodes half have one at most, as the
-- last of all backwards is not.
--
-- columns:
--   source_id   integer   the input
--   path_id     bigint    the path

select range.source_id, range.path_id
from range
join name using (name_id)
where range.kind = 'operator' and not range.is_backward and not ends_with(name.text, '_backward')
group by range.source_id, range.path_id
having 2 * count(range.sequence_number) > count(*)
