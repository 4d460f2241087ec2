-- A row is a thread, and what the replay takes it for.
--
-- Threads of autograd are known by their names, or by what runs on them: operators of a backward alone.
--
-- columns:
--   source_id   integer   the input
--   thread_id   bigint    the thread
--   process     bigint    its process, as _work_process has it
--   is_main     boolean   whether steps are recorded on it
--   is_engine   boolean   whether autograd runs backwards on it, and no steps are recorded there

with
main as (
    select distinct source_id, thread_id
    from _step
    where thread_id is not null
),
backward as (
    select range.source_id, range.thread_id
    from range
    left join range as around on around.range_id = range.parent_id
    where range.kind = 'operator' and around.kind is distinct from 'operator'
    group by range.source_id, range.thread_id
    having bool_and(range.is_backward)
)
select
    own.source_id,
    own.thread_id,
    own.process,
    main.thread_id is not null as is_main,
    main.thread_id is null
    and (coalesce(regexp_matches(thread.name, 'pt_autograd'), false) or backward.thread_id is not null) as is_engine
from _work_process as own
join thread using (source_id, thread_id)
left join main on main.source_id = own.source_id and main.thread_id = own.thread_id
left join backward on backward.source_id = own.source_id and backward.thread_id = own.thread_id
