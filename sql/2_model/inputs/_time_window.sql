-- A row is an input's GPU window, which is cut into equal bins for series; the threshold time_bin_cnt says how many.
--
-- columns:
--   source_id   integer   the input
--   first_ns    bigint    begin of the window: of the first GPU work
--   span_ns     bigint    its length, to the end of the last
--   bin_cnt     bigint    bins

select
    work.source_id,
    min(work.start_ns) as first_ns,
    max(work.end_ns) - min(work.start_ns) as span_ns,
    any_value(setting.bin_cnt) as bin_cnt
from _stream_work as work
cross join (
    select greatest(1, value)::bigint as bin_cnt
    from threshold
    where name = 'time_bin_cnt'
) as setting
group by work.source_id
