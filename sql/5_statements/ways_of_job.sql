-- Replaces _rank_part or _rank_stretch: parts of the ways of ranks, with the matches and steps that the job gives their collectives, take the place of what the
-- ranks alone have.
--
-- given: table (_rank_part or _rank_stretch), summed (what of its columns is added up where parts are of one match then)

create or replace table $table as
select * replace (min(start_ns) as start_ns, max(end_ns) as end_ns $summed)
from (
    select way.* replace (matched.collective_id as collective_id, matched.step as step)
    from $table as way
    join _next_matched as matched on matched.part_id = way.collective_id
)
group by all
union all by name
from $table
where collective_id is null
