-- A row is an input that holds GPU work; of others nobody knows whether the GPU was idle or not recorded.
--
-- columns:
--   source_id   integer   the input

select distinct source_id
from gpu_op
