-- A row is an input and how many devices and processes share its work: at least one device, where all is the CPU's.
--
-- columns:
--   source_id     integer   the input
--   device_cnt    bigint    devices, at least 1
--   process_cnt   bigint    processes, those that are not recorded together 1

select
    source_id,
    greatest(1, count(distinct device_id)) as device_cnt,
    count(distinct coalesce(process_id, 0)) as process_cnt
from _stream_work
group by source_id
