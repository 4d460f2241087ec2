-- A row is a phase of training and how much memory of a device was live in it.
--
-- Phases are ranges by what their names mean (`## backward ##`, `Forward`, `opt.step`), over all steps. Of a phase that is no
-- range of the input, but that stacks or operators of allocations tell, what was live at its own events counts. 'load' is
-- what was there before the recording; where the file does not count that (nsys, a CPU in a torch.profiler trace) there is
-- no such row unless something shows some of it. Memory of other phases that goes on counts, as it does towards running out.
--
-- columns:
--   device            varchar   'cuda:0', 'cpu' …
--   phase             varchar   load, data, h2d, forward, backward or optimizer
--   phase_cnt         bigint    how often it ran, or stretches of its events; NULL for load
--   begin_bytes       bigint    live when it began, the most
--   peak_bytes        bigint    live in it, the most
--   end_bytes         bigint    live when it ended, the most
--   reserved_bytes    bigint    held by the allocator in it, the most; NULL if not recorded
--   process_id        bigint    the process
--   source_id         integer   the input, see trace_info
--   rank              integer   rank of the input, NULL if not recorded

with
level as (from _memory_moment),
place as (
    select distinct source_id, process, device from level
),
instance as (
    select
        place.*,
        range.range_id,
        said.phase,
        range.start_ns,
        range.end_ns
    from place
    join range on range.source_id = place.source_id
    join _phase_name as said using (name_id)
    where range.kind = 'annotation' and said.phase in ('data', 'h2d', 'forward', 'backward', 'optimizer')
    -- not within another of the same phase: torch names an optimizer's step, too, and a thread of autograd its backward
    qualify coalesce(max(range.end_ns) over (
        partition by place.source_id, place.process, place.device, said.phase
        order by range.start_ns, range.end_ns desc, range.range_id
        rows between unbounded preceding and 1 preceding
    ) < range.end_ns, true)
),
at_border as (
    select
        instance.source_id, instance.process, instance.device, instance.range_id, instance.phase,
        first.live_bytes as begin_bytes,
        instance.start_ns,
        instance.end_ns
    from instance
    asof left join level as first
        on first.source_id = instance.source_id
        and first.process = instance.process
        and first.device = instance.device
        and first.time_ns < instance.start_ns
),
at_end as (
    select at_border.*, last.live_bytes as end_bytes, last.reserved_bytes as last_reserved_bytes
    from at_border
    asof left join level as last
        on last.source_id = at_border.source_id
        and last.process = at_border.process
        and last.device = at_border.device
        and last.time_ns <= at_border.end_ns
),
inside as (
    select
        instance.range_id,
        instance.source_id,
        instance.process,
        instance.device,
        max(level.highest_bytes) as peak_bytes,
        max(level.reserved_bytes) as reserved_bytes
    from level
    asof join instance
        on instance.source_id = level.source_id
        and instance.process = level.process
        and instance.device = level.device
        and instance.start_ns <= level.time_ns
    where level.time_ns <= instance.end_ns
    group by all
),
-- phases that no range is, by their own events
border as (
    select
        source_id,
        coalesce(process_id, -1) as process,
        device,
        phase,
        unnest([start_ns, end_ns]) as time_ns,
        unnest([true, false]) as is_first
    from _memory_phase_stretch
    where (source_id, phase) not in (select (source_id, phase) from instance)
),
told as (
    select
        source_id,
        process,
        device,
        border.phase,
        count(*) filter (border.is_first) as phase_cnt,
        max(level.before_bytes) filter (border.is_first) as begin_bytes,
        max(level.live_bytes) filter (not border.is_first) as end_bytes
    from border
    join level using (source_id, process, device, time_ns)
    group by all
),
told_events as (
    select distinct source_id, coalesce(process_id, -1) as process, device, phase_of_step(phase) as phase, time_ns
    from _memory_event_phase
    where phase is not null and not is_before
),
highest as (
    select event.source_id, event.process, event.device, event.phase,
        max(level.highest_bytes) as peak_bytes, max(level.reserved_bytes) as reserved_bytes
    from told_events as event
    join level using (source_id, process, device, time_ns)
    group by all
),
found as (
    select
        at_end.source_id,
        at_end.process,
        at_end.device,
        at_end.phase,
        count(*) as phase_cnt,
        max(at_end.begin_bytes) as begin_bytes,
        max(greatest(inside.peak_bytes, at_end.begin_bytes)) as peak_bytes,
        max(at_end.end_bytes) as end_bytes,
        max(greatest(inside.reserved_bytes, at_end.last_reserved_bytes)) as reserved_bytes
    from at_end
    left join inside using (source_id, process, device, range_id)
    group by all
    union all by name
    select
        told.source_id, told.process, told.device, told.phase, told.phase_cnt, told.begin_bytes,
        greatest(highest.peak_bytes, told.begin_bytes) as peak_bytes, told.end_bytes, highest.reserved_bytes
    from told
    join highest using (source_id, process, device, phase)
    union all by name
    select
        source_id,
        process,
        device,
        'load' as phase,
        null::bigint as phase_cnt,
        arg_min(before_bytes, time_ns) as begin_bytes,
        arg_min(before_bytes, time_ns) as peak_bytes,
        arg_min(before_bytes, time_ns) as end_bytes
    from level
    where not is_before
    group by all
    having begin_bytes > 0 or (source_id, device) not in (select (source_id, device) from _memory_from_zero)
)
select
    found.device,
    found.phase,
    found.phase_cnt,
    found.begin_bytes::bigint as begin_bytes,
    found.peak_bytes::bigint as peak_bytes,
    found.end_bytes::bigint as end_bytes,
    found.reserved_bytes::bigint as reserved_bytes,
    nullif(found.process, -1) as process_id,
    found.source_id,
    source.rank
from found
join source using (source_id)
order by
    found.source_id, found.device, found.process,
    list_position(['load', 'data', 'h2d', 'forward', 'backward', 'optimizer'], found.phase)
