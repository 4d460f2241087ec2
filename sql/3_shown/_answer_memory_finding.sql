-- A row is a finding about memory that the answer has a line for: not what a CPU holds where that is less than a GiB, unless
-- the input was recorded for its memory, or memory ran out or grows.
--
-- columns:
--   source_id    integer   the input
--   rule         varchar   name of the rule
--   severity     varchar   as in memory_finding
--   device       varchar   'cpu', 'cuda:0', …
--   cost_bytes   bigint    what it holds
--   fall_bytes   bigint    how much lower the peak would be
--   evidence     varchar   what was seen
--   advice       varchar   what to do

select source_id, rule, severity, device, cost_bytes, fall_bytes, evidence, advice
from memory_finding
where device <> 'cpu'
    or cost_bytes >= 1073741824
    or rule in ('out_of_memory', 'growth')
    or source_id in (select source_id from memory_owner where is_exact)
