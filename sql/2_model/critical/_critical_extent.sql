-- A row is a step, and a process whose CPU is on its critical path: from where to where the path lies in the step.
--
-- A step has the CPU of its own process alone. An input without steps is one step of all its processes.
--
-- columns:
--   source_id   integer   the input
--   step_id     bigint    the step, NULL for an input without steps
--   process     bigint    the process, 0 if not recorded
--   start_ns    bigint    begin
--   end_ns      bigint    end

with
extent as (
    select source_id, step_id, min(start_ns) as start_ns, max(end_ns) as end_ns
    from _critical_piece
    group by source_id, step_id
),
working as (
    select distinct piece.source_id, piece.step_id, coalesce(thread.process_id, 0) as process
    from _critical_piece as piece
    left join thread on thread.source_id = piece.source_id and thread.thread_id = piece.thread_id
    where piece.kind = 'cpu'
)
select extent.source_id, extent.step_id, working.process, extent.start_ns, extent.end_ns
from extent
join working on working.source_id = extent.source_id and working.step_id is not distinct from extent.step_id
