-- A row is an outermost operator of the thread that has most of them, of the input that is being read.
--
-- needs: range, reading, staged_name, thread

with
outermost as (
    select own.range_id, own.thread_id, own.text_id, own.start_ns, own.end_ns
    from range as own
    semi join reading using (source_id)
    left join range as around on around.range_id = own.parent_id
    where own.kind = 'operator' and around.kind is distinct from 'operator'
),
most as (
    select thread_id
    from outermost
    group by thread_id
    order by count(*) desc, thread_id
    limit 1
)
select
    thread.process_id,
    one.thread_id as thread,
    one.text_id as name,
    one.start_ns as start,
    one.end_ns as "end",
    0 as graph_ns,
    starts_with(name.text, 'autograd::engine::evaluate_function') as is_backward
from outermost as one
join most using (thread_id)
join thread on thread.thread_id = one.thread_id
join staged_name as name on name.name_id = one.text_id
order by one.start_ns, one.range_id
