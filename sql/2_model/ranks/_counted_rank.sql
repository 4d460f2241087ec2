-- A row is an input of one of several ranks that fits to those of the others, see _rank_problem.
--
-- columns:
--   source_id   integer   the input
--   rank        integer   rank of the input
--   kind        varchar   its kind, see source
--   host        varchar   its machine, NULL if not recorded

select *
from _several_ranks
where source_id not in (select source_id from _rank_problem where is_left_out)
