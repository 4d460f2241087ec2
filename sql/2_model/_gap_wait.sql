-- A row is a wait of the CPU for the GPU behind which a device may be found idle: any but that for a full queue.
--
-- columns:
--   source_id     integer   the input
--   process       bigint    the process, as _work_process has it
--   start_ns      bigint    begin
--   end_ns        bigint    end
--   kind          varchar   as in sync_summary
--   is_pageable   boolean   whether an asynchronous call waited for a copy from or to pageable memory; others wait in any case
--   name_id       bigint    the call
--   path_id       bigint    name path of the range around it, NULL outside all ranges

select
    wait.source_id,
    own.process,
    wait.start_ns,
    wait.end_ns,
    wait.kind,
    wait.is_pageable and regexp_matches(wait.api_name, '(?i)async') as is_pageable,
    wait.name_id,
    range.path_id
from _sync_call as wait
join _work_process as own using (source_id, thread_id)
left join range using (range_id)
where wait.kind <> 'queue'
