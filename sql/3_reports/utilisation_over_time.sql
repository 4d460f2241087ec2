-- A row is one device in one time bin: how much of the bin it was busy, and with what.
--
-- The window of an input's GPU work is cut into as many equal bins as the threshold time_bin_cnt says. Times are lengths
-- of unions; over all bins they add up to those of gpu_timeline_summary. (nsys: gpu_time_util.)
--
-- columns:
--   device_id          integer   the device
--   bin                bigint    number of the bin, from 0
--   start_ns           bigint    its begin
--   end_ns             bigint    its end
--   busy_ns            bigint    time with any work
--   compute_ns         bigint    time with kernels that do not communicate, or graphs
--   communication_ns   bigint    time with communication kernels
--   memory_ns          bigint    time with copies or memsets
--   busy_frac          double    busy_ns / length of the bin
--   source_id          integer   the input, see trace_info
--   rank               integer   rank of the input, NULL where it does not say

with
edge as (
    select source_id, device_id, activity, step, if(step > 0, start_ns, end_ns) as time_ns
    from _device_activity
    cross join (values (1), (-1)) as side(step)
),
-- what was busy up to a moment is a sum over what began before it less what ended: no pair of stretch and bin is made
moved as (
    select
        edge.source_id,
        edge.device_id,
        edge.activity,
        bin_of(edge.time_ns, whole.first_ns, whole.span_ns, whole.bin_cnt) as bin,
        sum(edge.step) as step,
        sum(edge.step * edge.time_ns) as weight
    from edge
    join _time_window as whole using (source_id)
    group by all
),
used as (
    select distinct source_id, device_id, activity
    from moved
),
border as (
    select used.*, bin.bin, bin.start_ns as time_ns
    from _time_bin as bin
    join used using (source_id)
    union all
    select used.*, max(bin.bin) + 1, max(bin.end_ns)
    from _time_bin as bin
    join used using (source_id)
    group by all
),
until as (
    select
        border.*,
        coalesce(sum(moved.step) over before * border.time_ns - sum(moved.weight) over before, 0) as done_ns
    from border
    left join moved
        on moved.source_id = border.source_id
        and moved.device_id is not distinct from border.device_id
        and moved.activity = border.activity
        and moved.bin = border.bin - 1
    window before as (
        partition by border.source_id, border.device_id, border.activity order by border.bin rows unbounded preceding
    )
),
part as (
    select
        *,
        lead(time_ns) over following as end_ns,
        lead(done_ns) over following - done_ns as length_ns
    from until
    window following as (partition by source_id, device_id, activity order by bin)
)
select
    part.device_id,
    part.bin,
    part.time_ns as start_ns,
    part.end_ns,
    coalesce(sum(part.length_ns) filter (part.activity = 'busy'), 0)::bigint as busy_ns,
    coalesce(sum(part.length_ns) filter (part.activity = 'compute'), 0)::bigint as compute_ns,
    coalesce(sum(part.length_ns) filter (part.activity = 'communication'), 0)::bigint as communication_ns,
    coalesce(sum(part.length_ns) filter (part.activity = 'memory'), 0)::bigint as memory_ns,
    coalesce(sum(part.length_ns) filter (part.activity = 'busy'), 0) / nullif(part.end_ns - part.time_ns, 0) as busy_frac,
    part.source_id,
    source.rank
from part
join source on source.source_id = part.source_id
where part.end_ns is not null
group by part.source_id, part.device_id, part.bin, part.time_ns, part.end_ns, source.rank
order by part.source_id, part.device_id, part.bin
