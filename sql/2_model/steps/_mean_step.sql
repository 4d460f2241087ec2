-- A row is an input of which changes are replayed: the mean step, or the recording where it has none.
--
-- columns:
--   source_id   integer   the input
--   step_ns     bigint    how long it takes

select source_id, (any_value(window_ns) / any_value(step_cnt))::bigint as step_ns
from predicted_change
group by source_id
