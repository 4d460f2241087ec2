-- A row is one stream in one time bin: how much work had been launched and had not begun.
--
-- Work is in the queue from the end of its launching call to its begin on the GPU. The mean is exact: waiting time in
-- the bin over its length. Work whose launching call is not in the file is left out. (HTA: queue length.)
--
-- columns:
--   device_id      integer   the device
--   stream_id      bigint    the stream
--   bin            bigint    number of the bin, from 0
--   start_ns       bigint    its begin
--   end_ns         bigint    its end
--   waiting_ns     bigint    summed time that work waited within the bin
--   mean_queue_cnt double    waiting_ns / length of the bin: operations that waited on average
--   source_id      integer   the input, see trace_info
--   rank           integer   rank of the input, NULL where it does not say

with
edge as (
    select source_id, device_id, stream_id, step, if(step > 0, launch_end_ns, start_ns) as time_ns
    from gpu_op
    cross join (values (1), (-1)) as side(step)
    where launch_end_ns < start_ns
),
-- what has waited up to a moment is a sum over what began before it less what ended: no pair of work and bin is made
moved as (
    select
        edge.source_id,
        edge.device_id,
        edge.stream_id,
        bin_of(edge.time_ns, whole.first_ns, whole.span_ns, whole.bin_cnt) as bin,
        sum(edge.step) as step,
        sum(edge.step * edge.time_ns) as weight
    from edge
    join _time_window as whole using (source_id)
    group by all
),
used as (
    select distinct source_id, device_id, stream_id
    from gpu_op
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
        coalesce(sum(moved.step) over before * border.time_ns - sum(moved.weight) over before, 0) as waited
    from border
    left join moved
        on moved.source_id = border.source_id
        and moved.device_id is not distinct from border.device_id
        and moved.stream_id is not distinct from border.stream_id
        and moved.bin = border.bin - 1
    window before as (
        partition by border.source_id, border.device_id, border.stream_id order by border.bin rows unbounded preceding
    )
),
measured as (
    select
        *,
        lead(time_ns) over following as end_ns,
        lead(waited) over following - waited as waiting_ns
    from until
    window following as (partition by source_id, device_id, stream_id order by bin)
)
select
    measured.device_id,
    measured.stream_id,
    measured.bin,
    measured.time_ns as start_ns,
    measured.end_ns,
    measured.waiting_ns::bigint as waiting_ns,
    measured.waiting_ns / nullif(measured.end_ns - measured.time_ns, 0)::double as mean_queue_cnt,
    measured.source_id,
    source.rank
from measured
join source on source.source_id = measured.source_id
where measured.end_ns is not null
order by measured.source_id, measured.device_id, measured.stream_id, measured.bin
