-- A row is a set of name paths (attribution) of work by which the backward computes again what the forward did not keep.
--
-- Its launch lies in a backward node, and there in an operator that can be differentiated, see _differentiable_path.
--
-- columns:
--   source_id        integer   the input
--   attribution_id   bigint    the set of paths, see attribution
--   place_id         bigint    path of the outermost backward node around

select
    attribution.source_id,
    attribution.attribution_id,
    arg_min(path_id, range_path.depth) filter (node.path_id is not null) as place_id
from attribution
join range_path using (path_id)
left join (select distinct path_id from _backward_node) as node using (path_id)
left join _differentiable_path as again using (path_id)
where attribution.rule = 'direct'
group by attribution.source_id, attribution.attribution_id
having bool_or(node.path_id is not null) and bool_or(again.path_id is not null)
