-- A row is no row: this is the macro os_kind_of(text), what a function of the operating system's libraries does.
--
-- 'sleeps', 'waits' (for another thread, process or machine), 'reads', 'writes' or 'calls'.

create macro os_kind_of(text) as
    case
        when regexp_matches(text, 'sleep') then 'sleeps'
        when regexp_matches(
            text,
            '^(pthread_(cond_(timed|clock)?wait|(timed|clock|try)?join|barrier_wait|(mutex|rwlock|spin)_)|sem_(timed|clock|try)?wait'
            || '|p?poll$|p?select$|epoll_p?wait|futex|wait(3|4|id|pid)?$|sig(timed)?wait|pause$|flock$|lockf)'
        ) then 'waits'
        when regexp_matches(text, '^_*(f?p?readv?(64)?2?|fget[sc]|getw?c(har)?|gets|getline|getdelim|recv\w*|v?f?s?scanf|accept4?|getdents\w*)$')
            then 'reads'
        when regexp_matches(text, '^_*(f?p?writev?(64)?2?|fput[sc]|putw?c(har)?|puts|send\w*|v?f?d?printf|f(data)?sync|sync|msync|fflush)$')
            then 'writes'
        when text is not null then 'calls'
    end
