-- Replaces _rank_wait: waits of ranks in collectives that the job matched, with its steps, take the place of what the ranks alone have.

create or replace table _rank_wait as
select wait.* replace (matched.step as step)
from _rank_wait as wait
join matched_collective as matched using (collective_id)
where matched.match_id is not null
