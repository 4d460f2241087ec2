-- A row is a stretch in which a thread of an input without GPU work computed, or in which it communicated over gloo.
--
-- Operators compute, but for those that wait for communication, wherever they lie. Within a range that lies in an operator only
-- operators compute: autograd's nodes call hooks, in which Python sleeps, or FSDP waits for a message with no operator around it.
--
--     node      [-------------------------------]
--     range          [FSDP::post_backward]
--     operator         [copy]
--     compute   ------ ------             -------
--
-- Inputs have rows that record gloo, and stages of pipelines: a run of `lorabench collect` records its own ranges send and recv,
-- in which it waits for messages, and they count in place of gloo's, which last as long as a message is under way.
--
-- columns:
--   source_id   integer   the input
--   activity    varchar   'compute' or 'communication'
--   start_ns    bigint    begin
--   end_ns      bigint    end
--   place       varchar   what communicates: 'gloo:' and its name, or the name path of the range; NULL for 'compute'

with
on_cpu as materialized (
    select source_id
    from (
        select source_id from collective where found_by = 'gloo'
        union
        select source_id from _stage
    )
    where source_id not in (from _source_with_gpu)
),
operator as (
    select
        range.source_id,
        range.thread_id,
        range.start_ns,
        range.end_ns,
        range.kind = 'operator' and regexp_matches(name.text, '^(_?c10d(_functional)?::|record_param_comms|gloo:)') as is_wait,
        case
            when range.kind = 'operator' and parent.kind is distinct from 'operator' then 1
            -- what a compiled graph computes is no operator, and a message is under way beside what its thread does
            when range.kind = 'annotation'
                and parent.kind = 'operator'
                and not regexp_matches(name.text, '^(gloo:|## Call CompiledFxGraph)')
                then -1
            else 0
        end as turn
    from range
    join name using (name_id)
    left join range as parent on parent.range_id = range.parent_id
    where range.source_id in (from on_cpu) and range.kind in ('operator', 'annotation')
),
change as (
    select
        source_id,
        thread_id,
        unnest([start_ns, end_ns]) as time_ns,
        unnest([turn, -turn]) as operator_cnt,
        if(is_wait, unnest([1, -1]), 0) as wait_cnt
    from operator
    where turn <> 0 or is_wait
),
moment as (
    select source_id, thread_id, time_ns, sum(operator_cnt) as operator_cnt, sum(wait_cnt) as wait_cnt
    from change
    group by all
),
held as (
    select
        source_id,
        time_ns as start_ns,
        lead(time_ns) over in_thread as end_ns,
        sum(operator_cnt) over so_far as operator_cnt,
        sum(wait_cnt) over so_far as wait_cnt
    from moment
    window
        in_thread as (partition by source_id, thread_id order by time_ns),
        so_far as (partition by source_id, thread_id order by time_ns rows unbounded preceding)
),
own_wait as materialized (
    select range.source_id, range.start_ns, range.end_ns, range_path.path
    from range
    join name using (name_id)
    join range_path using (path_id)
    where range.source_id in (from on_cpu)
        and range.source_id in (select source_id from _pipeline_run)
        and range.kind = 'annotation'
        and name.text in ('send', 'recv')
)
select source_id, 'compute' as activity, start_ns, end_ns, null as place
from held
where operator_cnt > 0 and wait_cnt = 0
union all
select source_id, 'communication', work_start_ns, work_end_ns, 'gloo:' || name
from collective
where source_id in (from on_cpu)
    and work_start_ns is not null
    and not (operation in ('send', 'recv') and source_id in (select source_id from own_wait))
union all
select source_id, 'communication', start_ns, end_ns, path
from own_wait
