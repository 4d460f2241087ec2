-- Macro os_kind_of(text): what a function of the operating system's libraries does.
--
-- 'sleeps', 'waits' (for another thread), 'polls' (waits for any of several things, or a time), 'network', 'subprocess' (waits
-- for one), 'reads', 'writes' or 'calls'.

create macro os_kind_of(text) as
    case
        when regexp_matches(text, 'sleep') then 'sleeps'
        when regexp_matches(
            text,
            '^(pthread_(cond_(timed|clock)?wait|(timed|clock|try)?join|barrier_wait|(mutex|rwlock|spin)_)|sem_(timed|clock|try)?wait'
            || '|futex|sig(timed)?wait|pause$|flock$|lockf)'
        ) then 'waits'
        when regexp_matches(text, '^_*(p?poll|p?select|epoll_p?wait2?)$') then 'polls'
        when regexp_matches(text, '^_*(wait(3|4|id|pid)?|system|popen|pclose)$') then 'subprocess'
        when regexp_matches(text, '^_*(recv\w*|send(to|msg|mmsg)?|accept4?|connect|getaddrinfo|gethostby\w+)$') then 'network'
        when regexp_matches(text, '^_*(f?p?readv?(64)?2?|fget[sc]|getw?c(har)?|gets|getline|getdelim|v?f?s?scanf|getdents\w*)$')
            then 'reads'
        when regexp_matches(text, '^_*(f?p?writev?(64)?2?|fput[sc]|putw?c(har)?|puts|sendfile(64)?|v?f?d?printf|f(data)?sync|sync|msync|fflush)$')
            then 'writes'
        when text is not null then 'calls'
    end
