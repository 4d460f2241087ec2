-- A row is what torch's memory timeline says of an allocation: a row of memory_owner.
--
-- Its entries are found among the allocations of the trace by time and size. What was there before has no address: the entry's
-- number stands for it, with a minus.
--
-- needs: source, staged_memory_event, timeline
-- given: categories (the texts of the timeline's numbers); the source and the numbers of "created" and "existed" as values

with
named as (
    select
        entry[1] as time,
        entry[2] as action,
        entry[3] as bytes,
        $categories[entry[4] + 1] as category,
        row_number() over () as number
    from timeline
),
found as (
    select event.source_id, event.time_ns, event.device, event.address, event.bytes, named.category
    from staged_memory_event as event
    join source using (source_id)
    join named
        on named.time = event.time_ns + coalesce(source.origin_ns, 0)
        and named.bytes = event.bytes
    where event.source_id = ? and named.action = ? and named.category is not null
)
select *, null, null, false, false
from found
union all
select one.source_id, one.time_ns, one.device, -named.number, named.bytes, named.category, null, null, true, false
from named
cross join (
    select source_id, device, min(time_ns) as time_ns
    from found
    group by all
) as one
where named.action = ? and named.category is not null
