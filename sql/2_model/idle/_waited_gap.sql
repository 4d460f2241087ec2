-- A row is an idle gap of a device (_gap) and the wait of the CPU, in the process of what ended the gap, that ended within it, or so little before it that clocks may differ by it, if it was due to the CPU.
--
-- columns:
--   source_id        integer   the input
--   device_id        integer   the device, NULL without
--   start_ns         bigint    begin
--   end_ns           bigint    end
--   idle_ns          bigint    its length
--   cause            varchar   as in _gap
--   gpu_op_id        bigint    the operation that ended it
--   is_lead          boolean   whether it lies before the device's first work
--   process          bigint    the process of that operation, as _work_process has it
--   range_id         bigint    the range that owns the operation, NULL without
--   name_id          bigint    name of the operation
--   waited_name_id   bigint    the call in which the CPU waited for the GPU until the gap had begun, NULL without
--   waited_kind      varchar   its kind, as in sync_summary
--   waited_path_id   bigint    path of the range around it
--   is_pageable      boolean   whether it copied from or to pageable memory

with
judged as (
    select
        gap.*,
        wait.name_id as wait_name_id,
        wait.kind as wait_kind,
        wait.path_id as wait_path_id,
        wait.is_pageable as wait_is_pageable,
        gap.cause = 'host'
        and coalesce(
            wait.end_ns
            between gap.start_ns - (select value from threshold where name = 'clock_slack_ns') and gap.end_ns,
            false
        ) as has_waited
    from _gap as gap
    asof left join _gap_wait as wait
        on wait.source_id = gap.source_id
        and wait.process = gap.process
        and wait.start_ns < gap.start_ns
)
select
    source_id,
    device_id,
    start_ns,
    end_ns,
    idle_ns,
    cause,
    gpu_op_id,
    is_lead,
    process,
    range_id,
    name_id,
    if(has_waited, wait_name_id, null) as waited_name_id,
    if(has_waited, wait_kind, null) as waited_kind,
    if(has_waited, wait_path_id, null) as waited_path_id,
    has_waited and wait_is_pageable as is_pageable
from judged
