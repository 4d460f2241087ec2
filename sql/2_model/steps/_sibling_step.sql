-- A row is a step of an input without GPU work that no range holds: ranges side by side that come one after another, again
-- and again.
--
--     reader  backbone    head      reader  backbone    head      reader …
--     [      step 1                ][     step 2                 ][
--
-- They are the outermost annotations of a thread that come equally often, three times or more, in turn, and cover half of
-- the time or more together, a fourth more than the longest of them alone: that one would be the step otherwise. A step
-- begins with the first of them. None where a range is a step by its name, or an optimizer's.
--
-- columns:
--   source_id    integer   the input
--   thread_id    bigint    their thread
--   process_id   bigint    process of the thread, NULL if not recorded
--   step         bigint    number of the step, from 1
--   start_ns     bigint    begin
--   end_ns       bigint    begin of the next one, of the last the end of its ranges

with
on_cpu as (
    select source_id from source where source_id not in (select source_id from _source_with_gpu)
),
said as (
    select
        name.name_id as text_id,
        step_number(text) is not null or framework_step(text) is not null or coalesce(_phase_name.phase = 'optimizer', false)
            as is_told
    from name
    semi join (
        select distinct text_id from range
        where kind = 'annotation' and source_id in (from on_cpu)
    ) as used on used.text_id = name.name_id
    left join _phase_name using (name_id)
),
annotation as (
    select range.source_id, range.thread_id, range.path_id, range.range_id, range.start_ns, range.end_ns
    from range
    join said using (text_id)
    where range.kind = 'annotation' and range.source_id in (from on_cpu)
    qualify not bool_or(said.is_told) over (partition by range.source_id)
),
outermost as (
    select *
    from annotation
    qualify is_outermost(source_id, thread_id, start_ns, end_ns, range_id)
),
sibling as (
    select
        source_id, thread_id, path_id, count(*) as range_cnt, sum(end_ns - start_ns) as time_ns,
        min(start_ns) as first_ns, max(start_ns) as last_ns, max(end_ns) as end_ns
    from outermost
    group by source_id, thread_id, path_id
    having count(*) >= 3
),
together as (
    select
        source_id, thread_id, sum(time_ns) as time_ns, max(time_ns) as longest_ns,
        arg_min(path_id, first_ns) as path_id, arg_min(last_ns, first_ns) as opened_ns,
        max(first_ns) as first_ns, min(last_ns) as last_ns, max(end_ns) as end_ns
    from sibling
    group by source_id, thread_id, range_cnt
    having count(*) >= 2
),
active as (
    select source_id, max(end_ns) - min(start_ns) as active_ns
    from annotation
    group by source_id
),
chosen as (
    select together.*
    from together
    join active using (source_id)
    where 2 * together.time_ns >= active.active_ns
        and 4 * together.time_ns >= 5 * together.longest_ns
        and together.last_ns >= together.opened_ns
    qualify row_number() over (partition by source_id order by together.time_ns desc, together.thread_id) = 1
),
begun as (
    select
        chosen.source_id, chosen.thread_id, chosen.first_ns, chosen.end_ns as last_end_ns, opening.start_ns,
        lead(opening.start_ns) over in_order as next_ns,
        row_number() over in_order as step
    from outermost as opening
    join chosen using (source_id, thread_id, path_id)
    window in_order as (partition by chosen.source_id order by opening.start_ns)
)
select
    begun.source_id,
    begun.thread_id,
    thread.process_id,
    begun.step,
    begun.start_ns,
    coalesce(begun.next_ns, begun.last_end_ns) as end_ns
from begun
left join thread using (source_id, thread_id)
qualify first_ns < min(next_ns) over (partition by begun.source_id)  -- all of them come in the first step
