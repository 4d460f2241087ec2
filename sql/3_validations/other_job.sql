-- A row is an input that does not belong to the job of the other ranks.
--
-- Its collectives are not matched. Its own numbers are right, comparisons with the other ranks are not: leave it out.

select source_id, 'error' as severity, count(*) as problem_cnt, min(detail) as example
from _rank_problem
where problem = 'other_job'
group by source_id
