-- A row is a moment at which nsys sampled a running thread, with the library and the function that ran.
--
-- Where that has no symbol the function is the nearest of its callers in the same library that has one, as where one that is
-- stripped was called by its public name; of those far away (main) none.
--
-- columns:
--   source_id   integer   the input
--   sample_id   bigint    the sample
--   thread_id   bigint    the thread
--   start_ns    bigint    when
--   module_id   bigint    path of the library or program that ran, NULL if not recorded
--   name_id     bigint    the function, NULL where its library has no symbol on the stack

with
visited as (
    select
        source_id,
        sample_id,
        module_id,
        any_value(thread_id) as thread_id,
        any_value(start_ns) as start_ns,
        min(depth) as depth,
        arg_min(name_id, depth) filter (depth <= 3) as name_id
    from sampled_frame
    group by source_id, sample_id, module_id
)
select
    source_id,
    sample_id,
    any_value(thread_id) as thread_id,
    any_value(start_ns) as start_ns,
    arg_min((module_id, name_id), depth)[1] as module_id,
    arg_min((module_id, name_id), depth)[2] as name_id
from visited
group by source_id, sample_id
