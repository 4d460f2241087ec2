-- Macro wait_kind_of(text): what a call waits for that is no copy.
--
-- 'memset', 'device', 'stream', 'event', 'host memory' (which is pinned or unpinned), 'memory' (of the device), 'module', or NULL.

create macro wait_kind_of(text) as
    case
        when regexp_matches(text, '(?i)memset') then 'memset'
        when regexp_matches(text, '^(cu|cuda|hip)(Device|Ctx|Context)Synchronize') then 'device'
        when regexp_matches(text, '^(cu|cuda|hip)StreamSynchronize') then 'stream'
        when regexp_matches(text, '^(cu|cuda|hip)EventSynchronize') then 'event'
        when regexp_matches(text, '(?i)Host(Alloc|Register|Unregister|Free|Malloc)|(Free|Malloc|Alloc)Host') then 'host memory'
        when regexp_matches(text, '(?i)free|alloc') then 'memory'
        when regexp_matches(text, 'ModuleUnload|LibraryUnload') then 'module'
    end
