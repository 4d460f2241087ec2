-- Macro said_waiting(waited_ns, whole_ns): how much of some communication is waiting for ranks that come later, as a
-- clause; no text where that is NULL or next to nothing.

create macro said_waiting(waited_ns, whole_ns) as
    if(
        coalesce(20 * waited_ns > whole_ns, false),
        format(', {} of it waiting for later ranks', said_ns(least(whole_ns, waited_ns))), ''
    )
