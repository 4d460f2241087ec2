-- A row is the exposed copies, or the exposed communication, of the ranges of one path.
--
-- columns:
--   source_id        integer   the input
--   activity         varchar   'communication' or 'memory'
--   place            varchar   name path of the range, '(launch not recorded)' for what was launched before, '(managed memory)' for pages, which nothing launches, NULL outside all ranges
--   saving_ns        double    how long nothing hides it, the mean over the devices
--   occurrence_cnt   bigint    stretches
--   largest          varchar   the operations by name that the most of it is as long as
--   pageable_frac    double    how much of it is of copies from or to pageable memory

with
-- copies of several streams run beside each other: the longest of a stretch is what it is as long as
longest as (
    select stretch.gpu_op_id, arg_max(moved.gpu_op_id, (moved.length_ns, -moved.gpu_op_id)) as longest_id
    from (
        select source_id, device_id, gpu_op_id, start_ns, end_ns - start_ns as length_ns
        from gpu_op
        where kind in ('memcpy', 'memset')
            and source_id in (
                select source_id from gpu_op where kind in ('memcpy', 'memset')
                group by source_id having min(stream_id) < max(stream_id)
            )
    ) as moved
    asof join (from _exposed where activity = 'memory') as stretch
        on stretch.source_id = moved.source_id
        and stretch.device_id is not distinct from moved.device_id
        and stretch.start_ns <= moved.start_ns
    group by stretch.gpu_op_id
),
-- by path and name, of which there are few, before these are looked up
summed as (
    select
        stretch.source_id,
        stretch.activity,
        op.attribution_id,
        op.api_call_id is null as is_unlaunched,
        op.name_id,
        sum(stretch.exposed_ns) as exposed_ns,
        coalesce(sum(stretch.exposed_ns) filter (pageable.gpu_op_id is not null), 0) as pageable_ns,
        count(*) as occurrence_cnt
    from _exposed as stretch
    left join longest on longest.gpu_op_id = stretch.gpu_op_id and stretch.activity = 'memory'
    join gpu_op as op on op.gpu_op_id = coalesce(longest.longest_id, stretch.gpu_op_id)
    join _steady_time as steady on steady.source_id = stretch.source_id
    left join (
        select gpu_op_id from memory_operation where src_kind = 'Pageable' or dst_kind = 'Pageable'
    ) as pageable on pageable.gpu_op_id = op.gpu_op_id
    where stretch.exposed_ns > 0 and stretch.start_ns >= steady.start_ns and stretch.start_ns < steady.end_ns
    group by all
),
named as (
    select
        summed.source_id,
        summed.activity,
        coalesce(range_path.path, case
            when summed.is_unlaunched and starts_with(short.short_name, 'page copy') then '(managed memory)'
            when summed.is_unlaunched then '(launch not recorded)'
        end) as place,
        short.short_name,
        sum(summed.exposed_ns) as exposed_ns,
        sum(summed.pageable_ns) as pageable_ns,
        sum(summed.occurrence_cnt) as occurrence_cnt,
        any_value(devices.device_cnt) as device_cnt
    from summed
    join _short_name as short on short.source_id = summed.source_id and short.name_id = summed.name_id
    join _device_cnt as devices on devices.source_id = summed.source_id
    left join _owner as own on own.attribution_id = summed.attribution_id
    left join range_path on range_path.path_id = own.path_id
    group by all
)
select
    source_id,
    activity,
    place,
    sum(exposed_ns) / any_value(device_cnt) as saving_ns,
    sum(occurrence_cnt)::bigint as occurrence_cnt,
    arg_max(short_name, (exposed_ns, short_name)) as largest,
    sum(pageable_ns) / sum(exposed_ns) as pageable_frac
from named
group by source_id, activity, place
