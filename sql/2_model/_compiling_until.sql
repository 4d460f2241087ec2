-- A row is a moment at which something began to be compiled or loaded (_compiling), and until when something is.
--
-- A long range around short loads goes on when they are over:
--
--     compiled   |---------------------------|
--     loaded         |--|   |--|                  at each of three begins, until the end of the first
--
-- columns:
--   source_id   integer   the input
--   process     bigint    the process, as _work_process has it
--   start_ns    bigint    the moment
--   end_ns      bigint    the latest end of what has begun
--   place       varchar   of which place that is

select distinct
    source_id,
    process,
    start_ns,
    max(end_ns) over begun as end_ns,
    arg_max(place, (end_ns, place)) over begun as place
from _compiling
window begun as (partition by source_id, process order by start_ns)
