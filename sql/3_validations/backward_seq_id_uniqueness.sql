-- A row is an input with sequence numbers that several backward nodes of different names carry.
--
-- Each thread numbers on its own, so forwards on several threads give the same numbers twice; the forward operator of such a node may be the other thread's.

select
    source_id,
    'error' as severity,
    count(*) as problem_cnt,
    format('number {}: {}', any_value(sequence_number), any_value(list_aggregate(names, 'string_agg', ', '))) as example
from (
    select range.source_id, range.sequence_number, list(distinct name.text order by name.text) as names
    from range
    join name using (name_id)
    where name.text like '%autograd::engine::evaluate_function:%' and range.sequence_number is not null
    group by all
)
where len(names) > 1
group by source_id
