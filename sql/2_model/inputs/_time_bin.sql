-- A row is one of the equal bins into which an input's GPU window is cut for series.
--
-- columns:
--   source_id   integer   the input
--   bin         bigint    number of the bin, from 0
--   start_ns    bigint    begin
--   end_ns      bigint    end

select
    source_id,
    bin,
    (first_ns + span_ns::hugeint * bin // bin_cnt)::bigint as start_ns,
    (first_ns + span_ns::hugeint * (bin + 1) // bin_cnt)::bigint as end_ns
from _time_window
cross join range(bin_cnt) as bins(bin)
