-- A row is an input with ranges that were opened and never closed.
--
-- They end with the last event of their thread here. A missing range_pop, or a recording that stopped inside.

select
    source_id,
    'warning' as severity,
    count(*) as problem_cnt,
    any_value(name.text) as example
from range
join name using (name_id)
where is_unfinished
group by source_id
