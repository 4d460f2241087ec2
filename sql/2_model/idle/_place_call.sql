-- A row is a place of late work, of those of an input that cost most, and what the CPU was in through all its gaps.
--
-- What it was in during the longest gap (_place_cpu) says nothing of the others, unless that gap is most of them. A function
-- counts by all its calls on the threads that launched what ended the gaps, where they fill more than half of the gaps'
-- time; those that launch, copy or fill count where they launched what ended the gap.
--
-- columns:
--   source_id      integer   the input
--   rule           varchar   'long_idle_gap', 'long_dependency', 'host_work' or 'launch_bound_range', see _blamed_place
--   place          varchar   its place, NULL outside all ranges
--   call_name      varchar   the function of CUDA in which the CPU was for more than half of the time, NULL for none
--   call_frac      double    its share
--   system_name    varchar   that of the operating system's libraries, NULL for none
--   system_frac    double    its share
--   has_others     boolean   whether that thread has others beside it, see _active_beside
--   launching_frac   double  share of the calls themselves that launch what ended the gaps
--   graph_frac     double    share of the gaps that work of CUDA graphs ended
--   copy_frac      double    share of those that copies or memsets ended
--   within_frac    double    share of those that copies within the device ended
--   hosted_frac    double    share of those behind functions of the CPU in a stream (_hosted_op)

with
place as (
    from _costly_place where rule in ('long_idle_gap', 'long_dependency', 'host_work', 'launch_bound_range')
),
gap as materialized (
    from _place_gap where number in (select number from place)
),
graph as (
    select api_call_id
    from api_call
    semi join (select name_id from name where contains(text, 'GraphLaunch')) as launching using (name_id)
),
ended as (
    select
        gap.number,
        sum(greatest(least(op.launch_end_ns, gap.end_ns) - greatest(op.launch_start_ns, gap.start_ns), 0))
        / sum(gap.end_ns - gap.start_ns) as launching_frac,
        coalesce(sum(gap.end_ns - gap.start_ns) filter (op.api_call_id in (from graph)), 0)
        / sum(gap.end_ns - gap.start_ns) as graph_frac,
        coalesce(sum(gap.end_ns - gap.start_ns) filter (op.kind in ('memcpy', 'memset')), 0)
        / sum(gap.end_ns - gap.start_ns) as copy_frac,
        coalesce(sum(gap.end_ns - gap.start_ns) filter (moved.copy_kind = 'DtoD'), 0)
        / sum(gap.end_ns - gap.start_ns) as within_frac,
        coalesce(sum(gap.end_ns - gap.start_ns) filter (gap.gpu_op_id in (from _hosted_op)), 0)
        / sum(gap.end_ns - gap.start_ns) as hosted_frac
    from gap
    join gpu_op as op using (gpu_op_id)
    left join memory_operation as moved using (gpu_op_id)
    group by gap.number
),
-- what takes less than half of the gaps' time on the whole fills no half of it
total as (
    select source_id, name_id, false as of_system, sum(end_ns - start_ns) as total_ns
    from api_call
    where not is_duplicate
        and name_id not in (select name_id from name where regexp_matches(text, '(?i)launch|memcpy|memset'))
    group by source_id, name_id
    union all
    select source_id, name_id, true, sum(end_ns - start_ns)
    from os_call
    group by source_id, name_id
),
candidate as (
    select place.number, place.source_id, place.idle_ns, total.name_id, total.of_system
    from place
    join total on total.source_id = place.source_id and 2 * total.total_ns > place.idle_ns
),
call as (
    select
        source_id,
        thread_id,
        name_id,
        of_system,
        start_ns,
        end_ns,
        coalesce(sum(end_ns - start_ns) over (
            partition by source_id, thread_id, name_id, of_system
            order by start_ns, end_ns rows between unbounded preceding and 1 preceding
        ), 0) as before_ns
    from (
        select source_id, thread_id, name_id, false as of_system, start_ns, end_ns
        from api_call
        where not is_duplicate
        union all
        select source_id, thread_id, name_id, true, start_ns, end_ns
        from os_call
    )
    semi join candidate using (source_id, name_id, of_system)
),
asked as (
    select gap.number, candidate.source_id, launch.thread_id, candidate.name_id, candidate.of_system, candidate.idle_ns, gap.start_ns,
        gap.end_ns
    from gap
    join candidate using (number)
    join gpu_op as op using (gpu_op_id)
    join api_call as launch using (api_call_id)
),
filled as (
    select
        asked.number,
        asked.of_system,
        asked.name_id,
        sum(till.before_ns + least(asked.end_ns, till.end_ns) - till.start_ns
            - coalesce(since.before_ns + least(asked.start_ns, since.end_ns) - since.start_ns, 0))
        / any_value(asked.idle_ns) as frac,
        asked.of_system and coalesce(bool_or(asked.thread_id in (select thread_id from _active_beside)), false) as has_others
    from asked
    asof join call as till
        on till.source_id = asked.source_id
        and till.thread_id = asked.thread_id
        and till.name_id = asked.name_id
        and till.of_system = asked.of_system
        and till.start_ns <= asked.end_ns
    asof left join call as since
        on since.source_id = asked.source_id
        and since.thread_id = asked.thread_id
        and since.name_id = asked.name_id
        and since.of_system = asked.of_system
        and since.start_ns <= asked.start_ns
    group by asked.number, asked.of_system, asked.name_id
    having frac > 0.5
),
most as (
    select
        filled.number,
        arg_max(name.text, (filled.frac, -filled.name_id)) filter (not filled.of_system) as call_name,
        max(filled.frac) filter (not filled.of_system) as call_frac,
        arg_max(name.text, (filled.frac, -filled.name_id)) filter (filled.of_system) as system_name,
        max(filled.frac) filter (filled.of_system) as system_frac,
        bool_or(filled.has_others) as has_others
    from filled
    join name using (name_id)
    group by filled.number
)
select
    place.source_id,
    place.rule,
    place.place,
    most.call_name,
    if(most.call_frac > 1, 1, most.call_frac) as call_frac,
    most.system_name,
    if(most.system_frac > 1, 1, most.system_frac) as system_frac,
    coalesce(most.has_others, false) as has_others,
    ended.launching_frac,
    ended.graph_frac,
    ended.copy_frac,
    ended.within_frac,
    ended.hosted_frac
from place
join ended using (number)
left join most using (number)
