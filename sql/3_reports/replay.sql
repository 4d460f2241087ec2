-- A row is one step: how long it took, and how long it takes when the trace is replayed unchanged.
--
-- The trace is replayed as a graph of CPU stretches, calls and GPU operations; waits follow the operations that they
-- waited for (analyze/attribute/replay.py). What is measured stays on the edge that was the last, so an error is a
-- defect: predictions of what_if stand on this graph. A trace without steps counts as one, number NULL.
--
-- columns:
--   step          bigint    its number, NULL for the whole of a trace without steps
--   measured_ns   bigint    from its start until it and the GPU work that it launched are done
--   replayed_ns   bigint    the same by replay
--   error_frac    double    replayed_ns / measured_ns - 1
--   start_ns      bigint    its start
--   source_id     integer   the input, see trace_info
--   rank          integer   rank of the input, NULL if not recorded

select
    replayed.step,
    replayed.measured_ns,
    replayed.replayed_ns,
    replayed.replayed_ns / nullif(replayed.measured_ns, 0) - 1 as error_frac,
    replayed.start_ns,
    replayed.source_id,
    source.rank
from replayed_step as replayed
join source on source.source_id = replayed.source_id
order by replayed.source_id, replayed.start_ns, replayed.step
