-- A row is a rank, with how much it copied and how much is usual among the ranks that its kind of file is of.
--
-- columns:
--   source_id     integer   the input
--   bytes         hugeint   what it copied
--   usual_bytes   double    the median of the ranks

select source.source_id, sum(bytes) as bytes, median(sum(bytes)) over (partition by source.kind) as usual_bytes
from memory_copy_summary
join source using (source_id)
semi join _several_ranks using (source_id)
group by source.source_id, source.kind
