-- A row is an idle gap of a device, or the time from a first step's begin to its first work, and the one rule that it is
-- blamed on.
--
-- The first of these that fits:
--   compiling_or_loading  something was compiled, loaded or made for more than a quarter of it: what lies around is of the same
--                         kind; a launch that loads its kernel is the whole of that, and counts where it is more than half
--   late_input            the CPU was fetching input for more than half of it, and the work that ended it had waited for that: it was
--                         launched by the thread that fetched, or behind the end of a fetch of another thread in the gap while
--                         nothing of the process was in the forward, the backward or the optimizer all the time (a thread that reads
--                         ahead reads in every gap)
--   devices_in_turn       other devices of its process worked for more than half of it, and the work that ended it was launched in
--                         time, or by a CPU that had waited
--   unified_memory        pages of managed memory moved behind it
--   blocking_copy, pageable_async_copy, synchronisation
--                         the CPU had waited for the device, which had nothing left to do when the wait was over
--   unrecorded_graph      work of a CUDA graph that has gaps between its own nodes (so some of them are missing) ended it, or
--                         came before
--   unrecorded_work       it was long, the work that ended it had been launched in time, and the CPU was in a wait for the GPU
--                         for more than half of it (before the first work of a step: in such a wait in any case): the
--                         input's one device works, but nothing of it is in the file; unless a function of the CPU stands
--                         before the work (_hosted_op)
--   long_idle_gap         it was long and the CPU late
--   long_dependency       it was long and the CPU in time
--   launch_bound_range    the CPU was late with the launch
-- Gaps of the device's own (cause kernel_wait) and short ones behind a dependency are nobody's: without the latter no trace
-- that was looked at would be shorter by a hundredth, because the CPU is as late for what follows. So each nanosecond is
-- blamed once, and all that rules blame together is no more than the idle time.
--
-- columns:
--   source_id    integer   the input
--   device_id    integer   the device
--   gpu_op_id    bigint    the operation that ended the gap
--   start_ns     bigint    its start
--   end_ns       bigint    its end
--   idle_ns      bigint    its length
--   saving_ns    double    its share of the idle time of all devices: what the input would save without it, at most
--   cause        varchar   'host', 'dependency' or 'kernel_wait', as in idle_gap
--   waited_name_id   bigint     the call in which the CPU waited for the GPU until the gap had begun, of unrecorded_work in the
--                    gap; NULL without
--   waited_kind  varchar   its kind, as in sync_summary
--   rule         varchar   the rule, NULL for none
--   path_id      bigint    path of the range that is to be changed, NULL outside all ranges
--   compiled     varchar   what was compiled or loaded, else NULL
--   ended_by_ns  bigint    how long the operation that ended it takes
--   is_lead      boolean   whether it lies before the device's first work

with
managed as (select name_id from name where moves_pages(text)),
with_input as (
    select
        gap.*,
        middle.place as input_path_id,
        coalesce(till.before_ns + least(gap.end_ns, till.end_ns) - till.start_ns, 0)
        - coalesce(since.before_ns + least(gap.start_ns, since.end_ns) - since.start_ns, 0) as input_ns
    from _waited_gap as gap
    asof left join merged('_data_range') as since
        on since.source_id = gap.source_id
        and since.process = gap.process
        and since.start_ns <= gap.start_ns
    -- what covers more than half of a gap covers its middle, or ended before it
    asof left join merged('_data_range') as middle
        on middle.source_id = gap.source_id
        and middle.process = gap.process
        and middle.start_ns <= (gap.start_ns + gap.end_ns) // 2
    asof left join merged('_data_range') as till
        on till.source_id = gap.source_id
        and till.process = gap.process
        and till.start_ns <= gap.end_ns
),
-- of each thread the furthest end of what had begun until then
read_by as (
    select source_id, thread_id, start_ns, max(until_ns) as until_ns
    from (
        select
            source_id,
            thread_id,
            start_ns,
            max(end_ns) over (
                partition by source_id, thread_id order by start_ns, end_ns rows unbounded preceding
            ) as until_ns
        from _data_range
    )
    group by all
),
launched as (
    select
        gap.source_id,
        gap.process,
        gap.gpu_op_id,
        gap.is_lead,
        gap.start_ns,
        coalesce(gpu_op.launch_start_ns, gap.end_ns) as launch_ns,
        api_call.thread_id
    from (from with_input where input_ns * 2 > idle_ns) as gap
    join gpu_op using (gpu_op_id)
    left join api_call using (api_call_id)
),
handed as (
    select launched.gpu_op_id, launched.is_lead
    from launched
    asof left join read_by as own
        on own.source_id = launched.source_id
        and own.thread_id = launched.thread_id
        and own.start_ns <= launched.launch_ns
    asof left join (select distinct source_id, process, end_ns from _data_range) as fetched
        on fetched.source_id = launched.source_id
        and fetched.process = launched.process
        and fetched.end_ns <= launched.launch_ns
    asof left join merged('_computing_range') as computing
        on computing.source_id = launched.source_id
        and computing.process = launched.process
        and computing.start_ns <= launched.start_ns
    where own.until_ns > launched.start_ns
        or fetched.end_ns > launched.start_ns and not coalesce(computing.end_ns >= launched.launch_ns, false)
),
with_compiling as (
    select
        gap.*,
        till.place as compiled,
        coalesce(till.before_ns + least(gap.end_ns, till.end_ns) - till.start_ns, 0)
        - coalesce(since.before_ns + least(gap.start_ns, since.end_ns) - since.start_ns, 0) as compiled_ns,
        handed.gpu_op_id is not null as is_handed
    from with_input as gap
    left join handed on handed.gpu_op_id = gap.gpu_op_id and handed.is_lead = gap.is_lead
    asof left join merged('_compiling') as since
        on since.source_id = gap.source_id
        and since.process = gap.process
        and since.start_ns <= gap.start_ns
    asof left join merged('_compiling') as till
        on till.source_id = gap.source_id
        and till.process = gap.process
        and till.start_ns <= gap.end_ns
),
in_turn as (
    select gap.gpu_op_id, gap.is_lead
    from (from _waited_gap where cause = 'dependency' or waited_kind is not null) as gap
    asof join merged('_busy_elsewhere') as till
        on till.source_id = gap.source_id
        and till.process = gap.device_id
        and till.start_ns <= gap.end_ns
    asof left join merged('_busy_elsewhere') as since
        on since.source_id = gap.source_id
        and since.process = gap.device_id
        and since.start_ns <= gap.start_ns
    where 2 * (
            till.before_ns + least(gap.end_ns, till.end_ns) - till.start_ns
            - coalesce(since.before_ns + least(gap.start_ns, since.end_ns) - since.start_ns, 0)
        ) > gap.idle_ns
),
waiting as (
    select *
    from _waited_gap
    where cause = 'dependency' and idle_ns > (select value from threshold where name = 'late_launch_ns')
),
hollow as (
    select distinct op.api_call_id
    from waiting
    join _graph_op as op using (gpu_op_id)
    where not op.is_first_op
),
unrecorded as (
    select waiting.gpu_op_id
    from waiting
    join (gpu_op semi join hollow using (api_call_id)) as op
        on op.source_id = waiting.source_id
        and op.device_id is not distinct from waiting.device_id
        and (op.gpu_op_id = waiting.gpu_op_id or op.end_ns = waiting.start_ns)
),
-- what covers more than half of a gap covers its middle
with_wait as (
    select
        with_compiling.*,
        with_compiling.idle_ns > (select value from threshold where name = 'long_gap_ns') as is_long,
        in_turn.gpu_op_id is not null as is_in_turn,
        compiled_ns * if(contains(compiled, 'LaunchKernel'), 2, 4) > with_compiling.idle_ns as is_compiling,
        wait.name_id as covering_name_id,
        wait.start_ns is not null
        and device_cnt = 1
        and with_compiling.gpu_op_id not in (from _hosted_op)
        and 2 * (least(wait.end_ns, with_compiling.end_ns) - greatest(wait.start_ns, with_compiling.start_ns))
            > with_compiling.idle_ns as is_waited_for
    from with_compiling
    left join in_turn on in_turn.gpu_op_id = with_compiling.gpu_op_id and in_turn.is_lead = with_compiling.is_lead
    left join _device_cnt using (source_id)
    asof left join (
        select source_id, process, start_ns, max(end_ns) as end_ns, arg_max(name_id, (end_ns, -name_id)) as name_id
        from _gap_wait
        group by all
    ) as wait
        on wait.source_id = with_compiling.source_id
        and wait.process = with_compiling.process
        and wait.start_ns <= (with_compiling.start_ns + with_compiling.end_ns) // 2
),
judged as (
    select
        *,
        case
            when cause = 'kernel_wait' then null
            when is_lead and is_waited_for then 'unrecorded_work'
            when is_compiling then 'compiling_or_loading'
            when is_handed then 'late_input'
            when is_in_turn then 'devices_in_turn'
            when name_id in (select name_id from managed) then 'unified_memory'
            when waited_kind in ('memcpy', 'memset') and is_pageable then 'pageable_async_copy'
            when waited_kind in ('memcpy', 'memset') then 'blocking_copy'
            when waited_kind is not null then 'synchronisation'
            when gpu_op_id in (from unrecorded) then 'unrecorded_graph'
            when is_long and cause = 'host' then 'long_idle_gap'
            when is_long and is_waited_for then 'unrecorded_work'
            when is_long then 'long_dependency'
            when cause = 'host' then 'launch_bound_range'
        end as rule
    from with_wait
)
select
    judged.source_id,
    judged.device_id,
    judged.gpu_op_id,
    judged.start_ns,
    judged.end_ns,
    judged.idle_ns,
    judged.idle_ns / device_cnt as saving_ns,
    judged.cause::varchar as cause,
    if(judged.rule = 'unrecorded_work', judged.covering_name_id, judged.waited_name_id) as waited_name_id,
    judged.waited_kind,
    judged.rule,
    case
        when judged.rule = 'late_input' then judged.input_path_id
        when judged.rule in ('pageable_async_copy', 'blocking_copy', 'synchronisation') then judged.waited_path_id
        else range.path_id
    end as path_id,
    if(judged.is_compiling, judged.compiled, null) as compiled,
    op.end_ns - op.start_ns as ended_by_ns,
    judged.is_lead
from judged
join _device_cnt using (source_id)
left join range using (range_id)
join gpu_op as op on op.gpu_op_id = judged.gpu_op_id
