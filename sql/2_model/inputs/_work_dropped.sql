-- A row is an input in which kernels are missing between others (_dropped_launch).
--
-- columns:
--   source_id      integer   the input
--   dropped_cnt    bigint    launches without a kernel
--   launch_cnt     bigint    all calls that launch a kernel

select source_id, count(*) as dropped_cnt, any_value(surplus.launch_cnt) as launch_cnt
from _dropped_launch
join _launch_surplus as surplus using (source_id)
group by source_id
