-- A row is an input of a rank, where there are several ranks; of two passes over the same steps that without memory.
--
-- columns:
--   source_id   integer   the input
--   rank        integer   rank of the input
--   kind        varchar   its kind, see source
--   host        varchar   its machine, NULL if not recorded

select source_id, rank, kind, host
from source
where rank is not null and kind is not null and (select count(distinct rank) from source) > 1
    and source_id not in (from _memory_pass)
