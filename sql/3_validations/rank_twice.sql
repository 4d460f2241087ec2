-- A row is an input of a rank of which there is another input of the same time.
--
-- A copy is left out, and of two that differ the later one. Keep the one that is of this job.

select source_id, 'error' as severity, 1 as problem_cnt, detail as example
from _rank_problem
where problem = 'rank_twice'
