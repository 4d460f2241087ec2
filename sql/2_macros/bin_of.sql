-- A row is no row: this is the macro bin_of(time_ns, first_ns, span_ns, bin_cnt), the bin of _time_bin that a time lies in.
--
-- Bin b begins at first_ns + span_ns * b // bin_cnt: the last one that begins no later than the time. -1 before the
-- first, bin_cnt or more at the end, NULL where all is one moment.

create macro bin_of(time_ns, first_ns, span_ns, bin_cnt) as
    case
        when time_ns < first_ns then -1
        else (((time_ns - first_ns + 1)::hugeint * bin_cnt - 1) // nullif(span_ns, 0))::bigint
    end
