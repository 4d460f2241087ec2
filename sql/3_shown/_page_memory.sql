-- A row is what one category of memory held of a device at one moment: when least and when most was live, of 1,800 stretches of equal length.
--
-- A picture of at most as many pixels so has the least and the most of each pixel, and all that was live at one of these
-- moments. The first event and the last are among them.
--
-- columns:
--   source_id      integer    the input
--   device         varchar    the device
--   time_ns        bigint     the moment, NULL if not recorded
--   event_number   bigint     the same as the number of an event, where times are not recorded
--   category       varchar    the category
--   live_bytes     bigint     live then

with
event as (
    select source_id, device, coalesce(time_ns, event_number) as place, time_ns, live_bytes
    from memory_timeline
),
change as (select *, coalesce(time_ns, event_number) as place from memory_by_category),
span as (
    select source_id, device, min(place) as first, max(place) as last, count(time_ns) > 0 as is_timed
    from event
    group by source_id, device
),
stretch as (
    select
        source_id,
        device,
        arg_min(place, (live_bytes, place)) as least_place,
        arg_max(place, (live_bytes, -place)) as most_place
    from event
    join span using (source_id, device)
    group by source_id, device, ((place - first)::hugeint * 1800 // (last - first + 1))
),
moment as (
    select source_id, device, least_place as place from stretch
    union
    select source_id, device, most_place from stretch
    union
    select source_id, device, first from span
    union
    select source_id, device, last from span
),
category as (select distinct source_id, device, category from change),
-- changes and moments in one line: what a moment finds is the last change before it
point as (
    select source_id, device, category, place, live_bytes, false as is_moment
    from change
    union all
    select moment.source_id, moment.device, category.category, moment.place, null, true
    from moment
    join category using (source_id, device)
),
seen as (
    select
        * exclude (live_bytes),
        last_value(live_bytes ignore nulls) over (
            partition by source_id, device, category order by place, is_moment rows unbounded preceding
        ) as live_bytes
    from point
)
select
    seen.source_id,
    seen.device,
    if(is_timed, seen.place, null) as time_ns,
    if(is_timed, null, seen.place) as event_number,
    seen.category,
    coalesce(seen.live_bytes, 0)::bigint as live_bytes
from seen
join span using (source_id, device)
join memory_category on memory_category.category = seen.category
where seen.is_moment
order by seen.source_id, seen.device, seen.place, memory_category.number
