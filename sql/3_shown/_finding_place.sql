-- A row is a place of an input's findings that is no path of ranges (a kernel's name), or what is around one and says
-- nothing of where it is: a step's path, or none (names may have slashes in them).
--
-- columns:
--   source_id   integer   the input
--   place       varchar   the place
--   is_around   boolean   whether it is around a place

with
found as (
    select distinct source_id, place
    from _predicted_finding
    where place is not null
),
around as (
    select distinct source_id, array_to_string(names[:depth], '/') as path
    from (
        select source_id, string_split(place, '/') as names, unnest(range(1, len(names) + 1)) as depth
        from found
    )
)
select source_id, place, false as is_around
from found
where place not in (select path from range_path)
union all
select source_id, path, true
from around
where path in (select path from range_path where path_id in (select path_id from _step_range))
    or path not in (select path from range_path)
