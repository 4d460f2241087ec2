-- A row is a step of a rank that meets others: from the start of what it does in it to the end.
--
-- columns:
--   source_id   integer   the rank's input
--   step        bigint    number of the step
--   start_ns    bigint    begin
--   end_ns      bigint    end

select source_id, step, min(start_ns) as start_ns, max(end_ns) as end_ns
from _rank_stretch
where collective_id is null and step is not null
group by source_id, step
