-- Macro system_advice(kind, has_others): what to do where the CPU is in the operating system: os_kind_of.
--
-- has_others: its process has other threads in the file, which it may be that it waits for.

create macro system_advice(kind, has_others) as
    case
        when kind = 'reads'
            then 'It reads a file, a pipe or a terminal there: read ahead in separate threads or processes, from memory or a '
                || 'faster disk.'
        when kind = 'writes'
            then 'It writes there: log and save less often, or in a separate thread.'
        when kind = 'network'
            then 'It sends or receives over a network or a socket there: ask ahead, in a separate thread, or less often.'
        when kind = 'subprocess'
            then 'It waits there for a process that it started, such as a compiler: run that beforehand, or beside the steps.'
        when kind = 'sleeps'
            then 'The program sleeps there: look for sleep() in its own code, or for a library that polls.'
        when kind = 'polls' and not has_others
            then 'It sleeps or waits there for something outside the program, such as a file, a connection or a timer: look for '
                || 'what asks for it in its own code and its libraries.'
        when kind in ('waits', 'polls')
            then 'It waits there for another thread or process: mostly for a batch of the loader (more workers, prefetching), or for '
                || 'a lock. What the other threads do then is in the views os_summary and range_summary.'
        when kind = 'calls'
            then 'It is in the operating system there: look at what asks for it (nsys profile --osrt-backtrace, on by default, has '
                || 'the stacks).'
    end
