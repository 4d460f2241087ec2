-- Macro said_lengths(count, mean_ns, longest_ns, long_cnt, long_ns): how long each of several times is.
--
-- A mean does not say it where one of them is most of all, or where those that are not far shorter than the longest
-- (`long_cnt`, together `long_ns`) are nearly all of it and many others next to nothing.

create macro said_lengths(count, mean_ns, longest_ns, long_cnt, long_ns) as
    case
        when count = 1 then said_ns(mean_ns)
        when long_cnt > 1 and 4 * long_cnt <= 3 * count and 10 * long_ns > 9 * count * mean_ns
            then format('{} on average in {:,} of them, else {}', said_ns(long_ns / long_cnt), long_cnt,
                said_ns((count * mean_ns - long_ns) / (count - long_cnt)))
        when if(count = 2, 1.5, 2) * longest_ns > count * mean_ns
            then format('{} once, else {}', said_ns(longest_ns), said_ns((count * mean_ns - longest_ns) / (count - 1)))
            || if(count > 2, ' on average', '')
        else said_ns(mean_ns) || ' on average'
    end
