-- A row is one range text in the form of mLoRA's scripts/performance_report.py.
--
-- Kept for those who compare with its outputs: a launch counts in every range whose time contains the start of the
-- launching call, both ends inclusive, whatever the thread and process, and in a range twice when two instances
-- contain it. Kernels only; the launching call counts once for each kernel. Rows come in the order in which their
-- texts first appear in the file, and a text whose ranges last 0 ns in all is left out.
--
-- columns:
--   name             varchar   text of the ranges
--   total_range_ns   bigint    summed duration of the ranges
--   api_ns           bigint    summed duration of the launching calls
--   queue_ns         bigint    summed max(0, kernel start - end of the launching call)
--   kernel_ns        bigint    summed duration of the kernels
--   range_cnt        bigint    ranges
--   source_id        integer   the input

with
launch as (
    select
        source_id,
        launch_start_ns as time_ns,
        sum(launch_end_ns - launch_start_ns) as api_ns,
        sum(greatest(0, start_ns - launch_end_ns)) as queue_ns,
        sum(end_ns - start_ns) as kernel_ns
    from gpu_op
    where kind = 'kernel' and launch_start_ns is not null
    group by source_id, launch_start_ns
),
until as (
    select
        source_id,
        time_ns,
        sum(api_ns) over so_far as api_ns,
        sum(queue_ns) over so_far as queue_ns,
        sum(kernel_ns) over so_far as kernel_ns
    from launch
    window so_far as (partition by source_id order by time_ns)
),
instance as (
    select
        range.source_id,
        range.text_id,
        range.position,
        range.end_ns - range.start_ns as range_ns,
        coalesce(last.api_ns, 0) - coalesce(before.api_ns, 0) as api_ns,
        coalesce(last.queue_ns, 0) - coalesce(before.queue_ns, 0) as queue_ns,
        coalesce(last.kernel_ns, 0) - coalesce(before.kernel_ns, 0) as kernel_ns
    from range
    asof left join until as last on last.source_id = range.source_id and last.time_ns <= range.end_ns
    asof left join until as before on before.source_id = range.source_id and before.time_ns < range.start_ns
    where range.kind <> 'python'
)
select
    name.text as name,
    sum(range_ns)::bigint as total_range_ns,
    sum(api_ns)::bigint as api_ns,
    sum(queue_ns)::bigint as queue_ns,
    sum(kernel_ns)::bigint as kernel_ns,
    count(*) as range_cnt,
    instance.source_id
from instance
join name on name.name_id = instance.text_id
group by instance.source_id, name.text
having sum(range_ns) <> 0
order by instance.source_id, min(position)
