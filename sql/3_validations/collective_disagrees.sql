-- A row is an input with collectives whose members disagree on the operation, its type or its bytes.
--
-- They are not matched. Ranks that call other collectives than the others hang or compute nonsense; or the traces are of different runs.

select
    min(collective.source_id) as source_id,
    'error' as severity,
    count(distinct matched.reason) as problem_cnt,
    min(matched.reason) as example
from matched_collective as matched
join collective using (collective_id)
where matched.reason like '%differ: %'
group by regexp_extract(matched.reason, '^\w+')
