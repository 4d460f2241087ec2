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
category as (select distinct source_id, device, category from change)
select
    moment.source_id,
    moment.device,
    if(is_timed, moment.place, null) as time_ns,
    if(is_timed, null, moment.place) as event_number,
    category.category,
    coalesce(change.live_bytes, 0)::bigint as live_bytes
from moment
join span using (source_id, device)
join category using (source_id, device)
asof left join change
    on change.source_id = category.source_id
    and change.device = category.device
    and change.category = category.category
    and change.place <= moment.place
join memory_category on memory_category.category = category.category
order by moment.source_id, moment.device, moment.place, memory_category.number
