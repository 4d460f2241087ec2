-- A row is one of the 24 busiest streams of an input, as levels of how busy it was in bins of time.
--
-- 32,000 bins from the first GPU work to the last: 64 for each that a page draws, for who zooms in. Bins without work are
-- left out.
--
-- columns:
--   source_id   integer      the input
--   device_id   integer      the device
--   stream_id   bigint       the stream
--   bin_ns      bigint       length of a bin
--   bins        bigint[]     the bins with work, from 0 on
--   levels      integer[]    of each of them how much of it was busy, from 1 to 255

with
extent as (
    select source_id, min(start_ns) as begin_ns, greatest(1, (max(end_ns) - min(start_ns)) // 32000 + 1) as bin_ns
    from gpu_op
    group by source_id
),
piece as (
    select
        gpu_op.source_id,
        device_id,
        stream_id,
        start_ns - begin_ns as start_ns,
        end_ns - begin_ns as end_ns,
        bin_ns,
        unnest(range(
            (start_ns - begin_ns) // bin_ns, (greatest(end_ns - 1, start_ns) - begin_ns) // bin_ns + 1
        )) as bin
    from gpu_op
    join extent on extent.source_id = gpu_op.source_id
),
cell as (
    select
        source_id,
        device_id,
        stream_id,
        bin,
        any_value(bin_ns) as bin_ns,
        least(255, ceil(
            255 * sum(least(end_ns, (bin + 1) * bin_ns) - greatest(start_ns, bin * bin_ns)) / any_value(bin_ns)
        ))::integer as level
    from piece
    group by source_id, device_id, stream_id, bin
)
select source_id, device_id, stream_id, any_value(bin_ns) as bin_ns, list(bin) as bins, list(level) as levels
from cell
group by source_id, device_id, stream_id
qualify row_number() over (partition by source_id order by sum(level) desc) <= 24
order by source_id, device_id, stream_id
