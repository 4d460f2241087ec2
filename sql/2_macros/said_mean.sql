-- A row is no row: this is the macro said_mean(count, mean_ns, longest_ns), how long each of several times is, which a mean does not say where one of them is most of it.

create macro said_mean(count, mean_ns, longest_ns) as
    case
        when count = 1 then said_ns(mean_ns)
        when 2 * longest_ns > count * mean_ns
            then format('{} once, else {}', said_ns(longest_ns), said_ns((count * mean_ns - longest_ns) / (count - 1)))
            || if(count > 2, ' on average', '')
        else said_ns(mean_ns) || ' on average'
    end
