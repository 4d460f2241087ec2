-- Macro said_ns(ns): a time in the unit in which it has one to three digits before the point.

create macro said_ns(ns) as
    case
        when ns >= 1e9 then format('{:.1f} s', ns / 1e9)
        when ns >= 1e6 then format('{:.1f} ms', ns / 1e6)
        when ns >= 1e3 then format('{:.1f} us', ns / 1e3)
        else format('{:.0f} ns', ns::double)
    end
