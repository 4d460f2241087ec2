-- A row is an input that holds the same event more than once: GPU work of one stream, calls or ranges of one thread, with one name, begin and end.
--
-- All of them count. The usual reason is a file that was edited, or put together from parts that overlap. Events that take no time may be several.

with
event as (
    select source_id, 'GPU operations' as kind, hash(process_id, device_id, context_id, stream_id, correlation_id, name_id, start_ns, end_ns, graph_node_id) as hash
    from gpu_op
    where end_ns > start_ns
    union all
    select source_id, 'calls', hash(thread_id, name_id, start_ns, end_ns, correlation_id)
    from api_call
    where end_ns > start_ns and not is_duplicate
    union all
    select source_id, 'ranges', hash(thread_id, text_id, start_ns, end_ns, kind)
    from range
    where end_ns > start_ns and not is_unfinished
),
counted as (
    select source_id, kind, count(*) - count(distinct hash) as problem_cnt
    from event
    group by source_id, kind
)
select
    source_id,
    'warning' as severity,
    sum(problem_cnt)::bigint as problem_cnt,
    string_agg(format('{:,} {}', problem_cnt, kind), ', ' order by kind) || ' more than once' as example
from counted
where problem_cnt > 0
group by source_id
