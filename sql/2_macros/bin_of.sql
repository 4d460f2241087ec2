-- Macro bin_of(time_ns, first_ns, span_ns, bin_cnt): the bin of _time_bin that a time lies in.
--
-- Bin b begins at first_ns + span_ns * b // bin_cnt: the last one that begins no later than the time. -1 before the
-- first, bin_cnt or more at the end, NULL where all is one moment.

create macro bin_of(time_ns, first_ns, span_ns, bin_cnt) as
    case
        when time_ns < first_ns then -1
        -- 128 bits take ten times as long, and only a trace of weeks needs them
        when time_ns - first_ns < 4611686018427387903 // bin_cnt
            then ((time_ns - first_ns + 1) * bin_cnt - 1) // nullif(span_ns, 0)
        else (((time_ns - first_ns + 1)::hugeint * bin_cnt - 1) // nullif(span_ns, 0))::bigint
    end
