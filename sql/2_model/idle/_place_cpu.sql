-- A row is what the CPU was in during the longest idle gap of a place: behind a wait, or before a late launch.
--
-- It is the call, one or several of a name, that takes more than half of the gap on the thread which launched the work that
-- ended it, unless it launches itself; or, where that one is in Python or waits in the operating system, one that takes or frees
-- memory on another; or the shortest range, or else launch, that covers as much; else all that do together. Of an input only the
-- places that cost most are looked at, and a range around the place itself says nothing, but for the operator that launches, late
-- by itself.
--
-- columns:
--   source_id   integer   the input
--   rule        varchar   the rule that is blamed for the gap, see _blamed_place
--   place       varchar   its place, NULL outside all ranges
--   os_kind     varchar   where it was in no range or CUDA call, but in one of the operating system's libraries, which cpu_in
--         names then: 'waits', 'reads' and so on, see os_kind_of
--   has_others  boolean   whether its thread has others beside it, see _active_beside
--   cpu_in      varchar   the range or call; of autograd's the node that it evaluates; of many how many, and the one with the most
--         of the gap; where it was in neither for most of the gap that is said, and of a tenth of it or more how much was in some
--   cpu_kind    varchar   the kind of the range, or 'call'; 'several', from eight on 'many'; NULL where it was in neither
--   is_partly   boolean   whether it was in some for a tenth of the gap or more, but in neither for most of it
--   is_between  boolean   whether more than half of the gap lies between two steps of its process

with
gap as (
    select
        place.source_id,
        place.rule,
        place.place,
        op.start_ns - place.longest_ns as start_ns,
        op.start_ns as end_ns,
        call.thread_id,
        own.process
    from _blamed_place as place
    join gpu_op as op on op.gpu_op_id = place.ended_by
    join api_call as call using (api_call_id)
    left join _work_process as own on own.source_id = call.source_id and own.thread_id = call.thread_id
    where place.rule in ('blocking_copy', 'pageable_async_copy', 'synchronisation', 'long_idle_gap', 'long_dependency', 'host_work')
    qualify row_number() over (partition by place.source_id order by place.saving_ns desc, place.rule, place.place) <= 16
),
between as (
    select gap.source_id, gap.rule, gap.place
    from gap
    join _step_pace as step
        on step.source_id = gap.source_id
        and step.process = gap.process
        and step.is_followed
        and step.end_ns < gap.end_ns
        and step.start_ns + step.turn_ns > gap.start_ns
    group by gap.source_id, gap.rule, gap.place
    having 2 * sum(least(step.start_ns + step.turn_ns, gap.end_ns) - greatest(step.end_ns, gap.start_ns))
        > any_value(gap.end_ns - gap.start_ns)
),
-- what is shorter than half of the shortest gap covers more than half of none
least_length as (select min(end_ns - start_ns) / 2 as ns from gap),
long as (
    select source_id, thread_id, start_ns, end_ns, name_id, kind::varchar as kind, 0 as priority
    from range
    where end_ns - start_ns > (select ns from least_length)
    union all
    select source_id, thread_id, start_ns, end_ns, name_id, 'call', 1
    from api_call
    where end_ns - start_ns > (select ns from least_length)
),
covering as (
    select
        gap.source_id,
        gap.rule,
        gap.place,
        arg_min(long.name_id, (long.priority, long.end_ns - long.start_ns)) as name_id,
        arg_min(long.kind, (long.priority, long.end_ns - long.start_ns)) as kind
    from gap
    join long
        on long.source_id = gap.source_id
        and long.thread_id = gap.thread_id
        and long.start_ns < gap.end_ns
        and long.end_ns > gap.start_ns
        and 2 * (least(long.end_ns, gap.end_ns) - greatest(long.start_ns, gap.start_ns)) > gap.end_ns - gap.start_ns
    group by gap.source_id, gap.rule, gap.place
),
-- the function that takes more than half of a gap on its thread, by all its calls: of CUDA, and of the operating system
inside as (
    select gap.source_id, gap.rule, gap.place, call.of_system, call.name_id
    from gap
    join (
        select source_id, thread_id, start_ns, end_ns, name_id, false as of_system
        from api_call
        where not is_duplicate
            and name_id not in (select name_id from name where regexp_matches(text, '(?i)launch|memcpy|memset'))
        union all
        select source_id, thread_id, start_ns, end_ns, name_id, true
        from os_call
    ) as call
        on call.source_id = gap.source_id
        and call.thread_id = gap.thread_id
        and call.start_ns < gap.end_ns
        and call.end_ns > gap.start_ns
    group by gap.source_id, gap.rule, gap.place, call.of_system, call.name_id
    having 2 * sum(least(call.end_ns, gap.end_ns) - greatest(call.start_ns, gap.start_ns))
        > any_value(gap.end_ns - gap.start_ns)
    -- those of the operating system nest
    qualify row_number() over (
        partition by gap.source_id, gap.rule, gap.place, call.of_system
        order by sum(least(call.end_ns, gap.end_ns) - greatest(call.start_ns, gap.start_ns)) desc, call.name_id
    ) = 1
),
-- freeing memory takes its time wherever it happens: the operator around it is not what is slow
calling as (
    select source_id, rule, place, name_id
    from inside
    where not of_system
),
in_system as (
    select source_id, rule, place, name_id
    from inside
    where of_system
),
-- what another thread is in where the own one is in nothing or in Python alone: in Python, or in the operating system, it may wait
-- for that thread, as for autograd's in a backward; in nothing it does something that is not in the file
calling_elsewhere as (
    select gap.source_id, gap.rule, gap.place, call.name_id
    from gap
    join (
        select *
        from api_call
        semi join (select name_id from name where regexp_matches(text, '(?i)free|alloc')) as named using (name_id)
        where not is_duplicate
    ) as call
        on call.source_id = gap.source_id
        and call.thread_id <> gap.thread_id
        and call.start_ns < gap.end_ns
        and call.end_ns > gap.start_ns
    join _work_process as theirs
        on theirs.source_id = call.source_id and theirs.thread_id = call.thread_id and theirs.process = gap.process
    anti join calling
        on calling.source_id = gap.source_id
        and calling.rule = gap.rule
        and calling.place is not distinct from gap.place
    anti join (from covering where kind <> 'python') as covering
        on covering.source_id = gap.source_id
        and covering.rule = gap.rule
        and covering.place is not distinct from gap.place
    group by gap.source_id, gap.rule, gap.place, call.thread_id, call.name_id
    having 2 * sum(least(call.end_ns, gap.end_ns) - greatest(call.start_ns, gap.start_ns))
        > any_value(gap.end_ns - gap.start_ns)
    qualify row_number() over (
        partition by gap.source_id, gap.rule, gap.place
        order by sum(least(call.end_ns, gap.end_ns) - greatest(call.start_ns, gap.start_ns)) desc, call.name_id
    ) = 1
),
waiting as (
    select source_id, rule, place from covering
    union
    select in_system.source_id, in_system.rule, in_system.place
    from in_system
    join name using (name_id)
    where os_kind_of(name.text) in ('waits', 'polls')
),
awaited as (
    select source_id, rule, place, elsewhere.name_id
    from calling_elsewhere as elsewhere
    where exists (
        from waiting
        where waiting.source_id = elsewhere.source_id
            and waiting.rule = elsewhere.rule
            and waiting.place is not distinct from elsewhere.place
    )
),
-- of gaps that nothing covers by itself all that lies in them, each moment by the outermost
piece as (
    select
        gap.source_id,
        gap.rule,
        gap.place,
        gap.end_ns - gap.start_ns as gap_ns,
        span.name_id,
        least(span.end_ns, gap.end_ns) - greatest(
            span.start_ns,
            gap.start_ns,
            coalesce(
                max(span.end_ns) over (
                    partition by gap.source_id, gap.rule, gap.place
                    order by span.start_ns, span.end_ns desc rows between unbounded preceding and 1 preceding
                ),
                gap.start_ns
            )
        ) as piece_ns
    from gap
    anti join covering
        on covering.source_id = gap.source_id
        and covering.rule = gap.rule
        and covering.place is not distinct from gap.place
    join (
        select source_id, thread_id, start_ns, end_ns, name_id from range
        union all
        select source_id, thread_id, start_ns, end_ns, name_id from api_call
    ) as span
        on span.source_id = gap.source_id
        and span.thread_id = gap.thread_id
        and span.start_ns < gap.end_ns
        and span.end_ns > gap.start_ns
),
together as (
    select source_id, rule, place, name_id, any_value(gap_ns) as gap_ns, sum(piece_ns) as piece_ns, count(*) as piece_cnt
    from piece
    where piece_ns > 0
    group by source_id, rule, place, name_id
),
many as (
    select
        source_id,
        rule,
        place,
        arg_max(name_id, (piece_ns, -name_id)) as name_id,
        sum(piece_cnt) as piece_cnt,
        sum(piece_ns) / any_value(gap_ns) as frac
    from together
    group by source_id, rule, place
    having sum(piece_ns) > 0.1 * any_value(gap_ns)
)
select
    gap.source_id,
    gap.rule,
    gap.place,
    if(
        coalesce(calling.name_id, elsewhere.name_id, covering.name_id) is null and not coalesce(many.frac > 0.5, false),
        os_kind_of(system_name.text),
        null
    ) as os_kind,
    gap.thread_id in (select thread_id from _active_beside) as has_others,
    coalesce(
        if(os_kind is null, null, system_name.text),
        case
            when coalesce(calling.name_id, elsewhere.name_id, covering.name_id) is not null or many.name_id is null then ''
            when many.frac > 0.5 then format('{:,} ranges and calls, most of it ', many.piece_cnt)
            else format('no range or CUDA call for {:.0f}%, else most in ', 100 * (1 - many.frac))
        end
        || replace(name.text, 'autograd::engine::evaluate_function: ', '')
        || if(elsewhere.name_id is not null, ' on another thread', ''),
        'no range or CUDA call' || coalesce(' (another thread in ' || meanwhile.text || ')', '')
    ) as cpu_in,
    case
        when coalesce(calling.name_id, elsewhere.name_id) is not null then 'call'
        when many.name_id is null then covering.kind
        when many.frac > 0.5 then if(many.piece_cnt < 8, 'several', 'many')
    end as cpu_kind,
    coalesce(calling.name_id, elsewhere.name_id) is null and coalesce(many.frac <= 0.5, false) and os_kind is null as is_partly,
    between.source_id is not null as is_between
from gap
left join between
    on between.source_id = gap.source_id
    and between.rule = gap.rule
    and between.place is not distinct from gap.place
left join calling
    on calling.source_id = gap.source_id
    and calling.rule = gap.rule
    and calling.place is not distinct from gap.place
left join awaited as elsewhere
    on elsewhere.source_id = gap.source_id
    and elsewhere.rule = gap.rule
    and elsewhere.place is not distinct from gap.place
left join calling_elsewhere
    on calling_elsewhere.source_id = gap.source_id
    and calling_elsewhere.rule = gap.rule
    and calling_elsewhere.place is not distinct from gap.place
left join name as meanwhile on meanwhile.name_id = calling_elsewhere.name_id
left join covering
    on covering.source_id = gap.source_id
    and covering.rule = gap.rule
    and covering.place is not distinct from gap.place
left join many
    on many.source_id = gap.source_id and many.rule = gap.rule and many.place is not distinct from gap.place
left join in_system
    on in_system.source_id = gap.source_id
    and in_system.rule = gap.rule
    and in_system.place is not distinct from gap.place
left join name as system_name on system_name.name_id = in_system.name_id
left join name on name.name_id = coalesce(calling.name_id, elsewhere.name_id, covering.name_id, many.name_id)
where name.text is null
    or coalesce(calling.name_id, elsewhere.name_id) is not null
    or many.name_id is not null
    or not contains('/' || coalesce(gap.place, '') || '/', '/' || name.text || '/')
    -- the operator that launches is what is late
    or (covering.kind = 'operator' and gap.rule in ('long_idle_gap', 'host_work') and ends_with('/' || gap.place, '/' || name.text))
