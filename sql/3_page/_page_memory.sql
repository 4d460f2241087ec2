-- A row is what one category of memory held of a device at one of 401 moments at equal distances, or at the peak.
--
-- What was, no mean and no maximum of parts.
--
-- columns:
--   source_id      integer    the input
--   device         varchar    the device
--   time_ns        bigint     the moment, NULL if not recorded
--   event_number   bigint     the same as the number of an event, where times are not recorded
--   category       varchar    the category
--   live_bytes     bigint     live then

with
event as (select *, coalesce(time_ns, event_number) as place from memory_timeline),
change as (select *, coalesce(time_ns, event_number) as place from memory_by_category),
span as (
    select source_id, device, min(place) as first, max(place) as last, count(time_ns) > 0 as is_timed
    from event
    group by source_id, device
),
moment as (
    select distinct source_id, device, place
    from (
        select source_id, device, first + ((last - first)::hugeint * number // 400)::bigint as place
        from span
        cross join range(401) as t(number)
        union all
        select source_id, device, arg_min(place, (-live_bytes, place))
        from event
        group by source_id, device
    )
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
