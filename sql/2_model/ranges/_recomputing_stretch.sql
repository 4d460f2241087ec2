-- A row is one time that the backward computes again what the forward did not keep: in an outermost backward node, from the first
-- to the last operator in it that can be differentiated (_differentiable_path).
--
-- columns:
--   source_id   integer   the input
--   thread_id   bigint    the thread
--   start_ns    bigint    begin of the first
--   end_ns      bigint    end of the last

with
node as (
    select source_id, thread_id, start_ns, max(end_ns) as end_ns
    from _backward_node
    group by source_id, thread_id, start_ns
    qualify max(end_ns) > coalesce(
        max(max(end_ns)) over (
            partition by source_id, thread_id order by start_ns rows between unbounded preceding and 1 preceding
        ),
        0
    )
),
operator as (
    select range.source_id, range.thread_id, range.start_ns, range.end_ns
    from range
    semi join node using (source_id, thread_id)
    semi join _differentiable_path using (path_id)
    where not range.is_backward and range.sequence_number is not null
)
select operator.source_id, operator.thread_id, min(operator.start_ns) as start_ns, max(operator.end_ns) as end_ns
from operator
asof join node
    on node.source_id = operator.source_id
    and node.thread_id = operator.thread_id
    and node.start_ns <= operator.start_ns
where operator.end_ns <= node.end_ns
group by operator.source_id, operator.thread_id, node.start_ns
