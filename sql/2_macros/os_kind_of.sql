-- A row is no row: this is the macro os_kind_of(text), what a function of the operating system's libraries does.
--
-- 'sleeps', 'waits' (for another thread, process or machine), 'reads', 'writes' or 'calls'.

create macro os_kind_of(text) as
    case
        when regexp_matches(text, 'sleep') then 'sleeps'
        when regexp_matches(text, 'cond|sem_|mutex|futex|poll|select|join|wait|barrier|lock|pause') then 'waits'
        when regexp_matches(text, 'read|get(c|s|line|char|delim)|recv|scanf|accept') then 'reads'
        when regexp_matches(text, 'write|sync|flush|put(c|s|char)|send|printf') then 'writes'
        when text is not null then 'calls'
    end
