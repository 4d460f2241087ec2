-- A row is a moment at which nsys sampled a running thread, with the function that ran.
--
-- Where that has no symbol the function is the innermost on the stack that has one, as where a library that is stripped was
-- called by its public name.
--
-- columns:
--   source_id   integer   the input
--   sample_id   bigint    the sample
--   thread_id   bigint    the thread
--   start_ns    bigint    when
--   module_id   bigint    path of the library or program that ran, NULL if not recorded
--   name_id     bigint    the function, NULL for a stack without a symbol

select
    source_id,
    sample_id,
    any_value(thread_id) as thread_id,
    any_value(start_ns) as start_ns,
    any_value(module_id) filter (depth = 0) as module_id,
    arg_min(name_id, depth) as name_id
from sampled_frame
group by source_id, sample_id
