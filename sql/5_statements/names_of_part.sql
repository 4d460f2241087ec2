-- Makes the table renamed: the key in this database of each name of a part, with new ones for texts that are not here yet.

create temp table renamed as
with
highest as (
    select coalesce(max(name_id), -1) as name_id
    from name
)
select
    theirs.name_id as theirs,
    coalesce(
        ours.name_id,
        (from highest) + sum((ours.name_id is null)::bigint) over (order by theirs.name_id rows unbounded preceding)
    )::bigint as ours,
    ours.name_id is null as is_new
from part.name as theirs
left join name as ours using (text)
