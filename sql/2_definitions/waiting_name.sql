-- A row is one name, and what a call of that name may wait for.
--
-- columns:
--   name_id        bigint    the name
--   synchronises   varchar   what it synchronizes with: 'stream', 'event' or 'device', NULL for other calls
--   polls          varchar   what it asks for: 'stream' or 'event', NULL for other calls
--   is_move        boolean   copies or sets memory
--   is_async       boolean   says that it returns before that is done
--   may_wait       boolean   frees or takes memory and may wait for the device

select
    name_id,
    case
        when regexp_matches(text, '^(cu|cuda|hip)StreamSynchronize') then 'stream'
        when regexp_matches(text, '^(cu|cuda|hip)EventSynchronize') then 'event'
        when regexp_matches(text, '^(cu|cuda|hip)(Device|Ctx|Context)Synchronize') then 'device'
    end as synchronises,
    case
        when regexp_matches(text, '^(cu|cuda|hip)StreamQuery') then 'stream'
        when regexp_matches(text, '^(cu|cuda|hip)EventQuery') then 'event'
    end as polls,
    regexp_matches(text, '(?i)memcpy|memset') as is_move,
    regexp_matches(text, '(?i)async') as is_async,
    regexp_matches(text, '^(cu|cuda|hip)(Mem)?(Free|Host(Free|Unregister)|Malloc|Alloc|HostAlloc|HostRegister|ModuleUnload)')
        and not regexp_matches(text, '(?i)async') as may_wait
from name
