-- A row is a call that waits for the GPU (waiting_call), and for how much of its time.
--
-- columns:
--   api_call_id   bigint   the call
--   wait_ns       bigint   how long it waits

select api_call_id, max(end_ns - start_ns) as wait_ns
from waiting_call
group by api_call_id
