-- A row is an idle gap of a device (_gap) and the wait of the CPU that ended within it, if it was due to the CPU.
--
-- columns:
--   waited_name_id    bigint     the call in which the CPU waited for the GPU until the gap had begun, NULL without
--   waited_kind       varchar    its kind, as in sync_summary
--   waited_range_id   bigint     the range around it
--   is_pageable       boolean    whether it copied from or to pageable memory

with
wait as (
    select
        source_id,
        start_ns,
        end_ns,
        kind,
        is_pageable and regexp_matches(api_name, '(?i)async') as is_pageable, -- a cudaMemcpy blocks in any case
        name_id,
        range_id
    from _sync_call
    where kind <> 'queue'
),
judged as (
    select
        gap.*,
        wait.name_id as wait_name_id,
        wait.kind as wait_kind,
        wait.range_id as wait_range_id,
        wait.is_pageable as wait_is_pageable,
        gap.cause = 'host' and coalesce(wait.end_ns between gap.start_ns and gap.end_ns, false) as has_waited
    from _gap as gap
    asof left join wait
        on wait.source_id = gap.source_id
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
    range_id,
    name_id,
    if(has_waited, wait_name_id, null) as waited_name_id,
    if(has_waited, wait_kind, null) as waited_kind,
    if(has_waited, wait_range_id, null) as waited_range_id,
    has_waited and wait_is_pageable as is_pageable
from judged
