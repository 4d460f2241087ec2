-- A row is one backward node of autograd, a range, with the process of its thread.
--
-- columns:
--   source_id         integer   the input
--   process_id        bigint    process of the thread, NULL if not recorded
--   thread_id         bigint    the thread that evaluated it
--   range_id          bigint    the range
--   path_id           bigint    its name path
--   sequence_number   bigint    that of the operator that made it, NULL without
--   start_ns          bigint    begin
--   end_ns            bigint    end

select
    range.source_id,
    thread.process_id,
    range.thread_id,
    range.range_id,
    range.path_id,
    range.sequence_number,
    range.start_ns,
    range.end_ns
from range
join thread using (source_id, thread_id)
where range.is_backward
