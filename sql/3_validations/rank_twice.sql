-- A row is an input of a rank of which there is another input of the same time.
--
-- A copy is left out; of two that differ neither is chosen, and their collectives stay unmatched (collective_match). Keep one of them.

select source_id, 'error' as severity, 1 as problem_cnt, detail as example
from _rank_problem
where problem = 'rank_twice'
