-- A row is the idle gaps of one rule in the ranges of one path, long ones or behind waits, with what ended the longest.
--
-- columns:
--   source_id        integer   the input
--   rule             varchar   'long_idle_gap', 'long_dependency' or 'host_work'
--   place            varchar   name path of the range, NULL outside all ranges; '(between steps)' where the CPU was there, in nothing
--   saving_ns        double    what the input would save without them, at most
--   occurrence_cnt   bigint    gaps
--   evidence         varchar   how many, how long, and before which work
--   what_to_do       varchar   what to do, where the CPU is late
--   is_launching     boolean   whether the CPU is in the call itself that launches what ended the longest
--   is_lacking       boolean   whether work was launched for the longest gap that is not in the file

with
place as (
    select
        long.*,
        -- nearly all of it is one gap: the others do not tell what it is
        10 * long.longest_ns > 9 * long.mean_ns * long.occurrence_cnt as is_one,
        op.kind,
        launch.thread_id,
        launch.start_ns as launch_ns,
        -- the call that launches what ends the longest gap, where it is most of that gap
        if(
            2 * (least(launch.end_ns, op.start_ns) - greatest(launch.start_ns, op.start_ns - long.longest_ns))
            > long.longest_ns,
            launch.name_id,
            null
        ) as launching_id
    from _blamed_place as long
    join gpu_op as op on op.gpu_op_id = long.ended_by
    left join api_call as launch on launch.api_call_id = op.api_call_id
    where long.rule in ('long_idle_gap', 'long_dependency', 'host_work')
),
-- the first call of its name, where it took more than twice as long as any later one
readying as (
    select arg_min(api_call_id, start_ns) as api_call_id, max(end_ns - start_ns, 2)[2] as later_ns
    from api_call
    semi join (select launching_id as name_id from place where kind in ('memcpy', 'memset')) as copying using (name_id)
    where not is_duplicate
    group by source_id, name_id
    having arg_min(end_ns - start_ns, start_ns) > 2 * later_ns
),
waiting as (
    select distinct source_id, thread_id
    from place
    where rule = 'long_dependency'
),
event as (
    select call.source_id, call.thread_id, call.start_ns, name.text as api_name
    from api_call as call
    semi join waiting using (source_id, thread_id)
    join name using (name_id)
    where regexp_matches(name.text, '^(cu|cuda|hip)StreamWaitEvent')
),
launch as (
    select call.source_id, call.thread_id, call.start_ns
    from api_call as call
    semi join (select distinct source_id, thread_id from event) as telling using (source_id, thread_id)
    semi join gpu_op using (api_call_id)
),
-- the last time before each launch that a stream was told to wait for an event, if it is the launch's own
told as (
    select distinct place.rule, place.ended_by, event.api_name
    from place
    asof join event
        on event.source_id = place.source_id and event.thread_id = place.thread_id and event.start_ns < place.launch_ns
    asof left join launch
        on launch.source_id = place.source_id and launch.thread_id = place.thread_id and launch.start_ns < place.launch_ns
    where place.rule = 'long_dependency' and coalesce(launch.start_ns < event.start_ns, true)
),
-- launches whose work is not in the file and would have run in the longest gap: behind what had begun before it
lacking as (
    select
        place.rule, place.ended_by, place.source_id, op.process_id, op.launch_start_ns, max(before.launch_start_ns) as before_ns
    from place
    join gpu_op as op on op.gpu_op_id = place.ended_by
    join gpu_op as before
        on before.source_id = op.source_id
        and before.process_id is not distinct from op.process_id
        and before.start_ns < op.start_ns - place.longest_ns
    where place.source_id in (select source_id from _dropped_launch)
    group by all
),
dropped as (
    select lacking.rule, lacking.ended_by, count(*) as dropped_cnt
    from lacking
    join _dropped_launch as lost
        on lost.source_id = lacking.source_id
        and lost.process_id = coalesce(lacking.process_id, lost.process_id)
        and lost.start_ns > lacking.before_ns
        and lost.start_ns < lacking.launch_start_ns
    group by all
),
-- where input is read within steps nothing says that it is read between them
reading as (
    select distinct data.source_id
    from _data_range as data
    asof join _step_pace as step
        on step.source_id = data.source_id and step.process = data.process and step.start_ns <= data.start_ns
    where data.end_ns <= step.end_ns
),
-- what the CPU was in during the longest gap counts where that is most of them, or where it was in it through most of the others
seen as (
    select
        long.source_id,
        long.rule,
        long.place,
        far.rule is not null and 2 * long.longest_ns < long.mean_ns * long.occurrence_cnt as is_one_of_many,
        cpu.cpu_in as longest_in,
        coalesce(is_one_of_many and long.launching_id is not null and far.launching_frac < 0.5, false) as is_launching_alone,
        coalesce(is_one_of_many and far.call_name is not null, false) as is_called,
        coalesce(is_one_of_many and not is_called and far.system_name is not null and cpu.cpu_kind is null, false) as is_in_system,
        coalesce(
            is_one_of_many
            and not is_called
            and not is_in_system
            and (
                cpu.cpu_kind = 'call' and not regexp_matches(cpu.cpu_in, '(?i)launch|memcpy|memset| on another thread$')
                or cpu.os_kind is not null
            ),
            false
        ) as is_alone,
        case
            when is_called then far.call_name
            when is_in_system then far.system_name
            else cpu.cpu_in
        end as cpu_in,
        if(is_called, far.call_frac, far.system_frac) as cpu_frac,
        if(is_called, 'call', cpu.cpu_kind) as cpu_kind,
        if(is_called, null, if(is_in_system, os_kind_of(far.system_name), cpu.os_kind)) as os_kind,
        if(is_in_system, far.has_others, cpu.has_others) as has_others,
        coalesce(cpu.is_partly, false) as is_partly,
        coalesce(cpu.is_between, false) as is_between
    from place as long
    left join _place_cpu as cpu
        on cpu.source_id = long.source_id
        and cpu.rule = long.rule
        and cpu.place is not distinct from long.place
    left join _place_call as far
        on far.source_id = long.source_id
        and far.rule = long.rule
        and far.place is not distinct from long.place
    where cpu.rule is not null or is_called or is_in_system or is_launching_alone
)
select
    long.source_id,
    long.rule,
    if(cpu.is_between and cpu.cpu_kind is null and not cpu.is_alone and launching.text is null, '(between steps)', long.place) as place,
    long.saving_ns,
    long.occurrence_cnt,
    if(long.is_one, 'a gap of ', format('{:,} gaps, the longest ', long.occurrence_cnt))
    || format('{}, ended by {}', said_ns(long.longest_ns), short.short_name)
    || if(
        long.is_one and long.occurrence_cnt > 1,
        format(
            ' (and {:,} more of {} on average)', long.occurrence_cnt - 1,
            said_ns((long.mean_ns * long.occurrence_cnt - long.longest_ns) / (long.occurrence_cnt - 1))
        ),
        ''
    )
    || coalesce('; before its launch a stream was told to wait for an event (' || told.api_name || ')', '')
    || case
        when dropped.dropped_cnt is not null
            then format('; {} not in the file', if(dropped.dropped_cnt = 1, 'a kernel was launched for it that is',
                format('{:,} kernels were launched for it that are', dropped.dropped_cnt)))
        when launching.text is not null and not coalesce(cpu.is_launching_alone, false)
            then '; in it the CPU is in ' || launching.text || ' itself'
        when cpu.is_called and cpu.cpu_in is distinct from cpu.longest_in or cpu.is_in_system and cpu.cpu_in is distinct from cpu.longest_in
            then format('; {:.0f}% of their time the CPU is in {}', 100 * cpu.cpu_frac, cpu.cpu_in)
        when launching.text is not null then '; in it, but not in most of the rest, the CPU is in ' || launching.text || ' itself'
        when cpu.is_alone then '; in it, but not in most of the rest, the CPU is in ' || cpu.cpu_in
        when cpu.source_id is null or long.rule = 'long_dependency' and cpu.cpu_kind is distinct from 'call' then ''
        else '; in it the CPU is ' || if(cpu.is_between and cpu.cpu_kind is null, 'between two steps, ', '')
            || 'in ' || cpu.cpu_in
    end
    || if(sampled.said is null or long.rule = 'long_dependency' or launching.text is not null or cpu.is_called or cpu.is_in_system or cpu.cpu_kind = 'call'
        or cpu.os_kind is not null, '', '; ' || sampled.said) as evidence,
    coalesce(ddp_advice(long.source_id, long.place), case
        when dropped.dropped_cnt is not null
            then 'The GPU may have worked there: the recorder dropped that work, or the calls failed (validate). Record a shorter part '
                || 'again.'
        when regexp_matches(long.place, '[nr]cclComm(Init|Split|Destroy|Finalize|Abort)')
            then 'A communicator is created or destroyed there, which is paid once: start recording after the warm-up steps.'
        when launching.text is not null and cpu.is_launching_alone and not cpu.is_called and not cpu.is_in_system or cpu.is_alone
            then look_before_launch_advice(long.source_id)
        when cpu.is_launching_alone and cpu.is_called
            then call_advice(cpu.cpu_in, false, false, has_torch(long.source_id))
        when cpu.is_launching_alone and cpu.is_in_system
            then system_advice(cpu.os_kind, cpu.has_others)
        when contains(launching.text, 'GraphLaunch')
            then 'The first launch of a graph sets it up: replay it once before the recording begins. If each takes this '
                || 'long, the graph has many nodes: launch ahead of the GPU, or capture fewer and larger kernels.'
        when launching.text is not null and readying.api_call_id is not null
            then format('The first call initializes CUDA, which is paid once: warm up before the recording begins. Later ones '
                || 'take {} at most{}.', said_ns(readying.later_ns),
                if(contains(lower(short.short_name), 'pageable'), ', from pinned memory less', ''))
        when launching.text is not null and coalesce('Pageable' in (moved.src_kind, moved.dst_kind), op.kind = 'memcpy')
            then 'The call itself takes this long before anything moves: pageable memory is copied to a buffer of the '
                || 'driver first, so copy from pinned memory; a first call initializes CUDA.'
        when launching.text is not null and op.kind in ('memcpy', 'memset')
            then 'The call itself takes this long before the device begins: a first call initializes CUDA, later ones wait for a lock '
                || '(of another thread''s calls) or a core.'
        when launching.text is not null
            then 'The launch itself takes this long: a kernel''s first launch loads it, so warm up before the recording '
                || 'begins; later ones wait for a lock or a core.'
        when cpu.cpu_kind is null and cpu.os_kind is null and not coalesce(cpu.is_between, false) and sampled.is_waiting
            then if(
                long.source_id in (select source_id from os_call),
                'It waits there: os_summary has the system calls that were traced; if it is in none of them, then for a core '
                || '(see what else runs on the machine, and whether the process may use only a few: taskset, a container''s limit).',
                'It waits there for a file, a lock, another process or a core: record system calls, too (nsys profile '
                || '--trace=cuda,nvtx,osrt).'
            )
        when cpu.cpu_kind is null and cpu.os_kind is null and not coalesce(cpu.is_between, false) and sampled.said is not null
            then samples_advice(sampled.module, has_torch(long.source_id))
        when cpu.source_id is null and long.rule = 'host_work' then null  -- its own advice
        when cpu.source_id is null
            then look_before_launch_advice(long.source_id)
        when cpu.os_kind is not null
            then system_advice(cpu.os_kind, cpu.has_others)
        when cpu.cpu_kind is null and cpu.is_between and long.source_id in (from reading)
            then 'Input is read within the steps, so look at what the loop does between them: if it logs, saves or evaluates, do that less '
                || 'often, or in a separate thread; ranges '
                || if(has_torch(long.source_id), '(lorabench.span)', '(NVTX)') || ' say which.'
        when cpu.cpu_kind is null and cpu.is_between
            then 'Most loops get their input there. '
                || if(has_torch(long.source_id),
                    'Load ahead: DataLoader(num_workers=…, prefetch_factor=…, persistent_workers=True).',
                    'Load ahead: read and prepare it in separate threads.')
                || ' If it logs, saves or evaluates instead: less often; ranges '
                || if(has_torch(long.source_id), '(lorabench.span)', '(NVTX)') || ' say which.'
        when cpu.cpu_kind is null
            then 'Name what the CPU does there with ranges '
                || if(has_torch(long.source_id),
                    '(lorabench.span), or record Python''s stacks (with_stack=True)',
                    '(NVTX)' || if(has_samples(long.source_id), '', ', or record its samples (nsys profile --sample=process-tree)'))
                || if(cpu.is_partly, ': most of it is not', ': nothing of it is') || ' in the trace. Often it reads input, logs, '
                || 'saves or compiles.'
        when cpu.cpu_kind = 'call'
            then call_advice(cpu.cpu_in, long.occurrence_cnt <= 2 or 2 * long.longest_ns > long.saving_ns,
                long.longest_ns >= 1000000000, has_torch(long.source_id))
        when cpu.cpu_kind = 'annotation' and regexp_matches(cpu.cpu_in, '(?i)nvrtc|compil(e|ing|ation)([^dr]|$)')
            then 'Something is compiled there, which is paid once for each kernel: warm up before the recording begins; for short '
                || 'runs keep compiled code in a cache on disk.'
        when cpu.cpu_kind = 'operator' and regexp_matches(cpu.cpu_in, 'aten::_?pin_memory')
            then 'Host memory is pinned there, which takes long: pin buffers once and copy into them, or let the loader''s '
                || 'thread do it (DataLoader(pin_memory=True)).'
        when cpu.cpu_kind = 'operator' and contains(short.short_name, 'HtoD')
            and not regexp_matches(cpu.cpu_in, 'copy|aten::(to|pin_memory|clone|contiguous|empty)\b')
            then 'The CPU computes there what is then copied: compute it on the GPU (device="cuda"), or ahead, in workers of '
                || 'a DataLoader.'
        when cpu.cpu_kind = 'operator'
            then 'Compare its calls (range_instance): if only some are slow, it allocates, compiles or searches for an '
                || 'algorithm (cudnn.benchmark, MIOpen), or lacks a core; if all are, call it less often.'
        when cpu.cpu_kind = 'many'
            then 'Take fewer small steps there: fewer and larger operators (fused, compiled, foreach), nothing '
                || 'checked tensor by tensor in Python.'
        when cpu.cpu_kind = 'python' and regexp_matches(cpu.cpu_in, '(?i)empty_?cache')
            then 'empty_cache() waits for the GPU and releases its memory, and what follows allocates it again: leave it out of '
                || 'steps.'
        when cpu.cpu_kind = 'python' and regexp_matches(cpu.cpu_in, '\bgc\.collect|<built-in function collect>|gc\.py')
            then 'Garbage is collected explicitly there: leave it out of steps, or do it every few hundred.'
        when cpu.cpu_kind = 'python'
            then 'Look at what is done there besides launching: input, logging, saving, checks. What it calls is in the trace.'
        else 'Look at what is done ' || if(cpu.cpu_kind = 'annotation' and length(cpu.cpu_in) <= 40, 'in ' || cpu.cpu_in, 'there')
            || ' besides launching: input, logging, saving'
            || if(has_torch(long.source_id), ', Python. Narrower ranges (lorabench.span) or stacks', '. Narrower ranges (NVTX)')
            || if(sampled.module is null, '', ' or sample_summary') || ' say which part.'
    end) as what_to_do,
    launching.text is not null and not coalesce(cpu.is_launching_alone, false) as is_launching,
    dropped.dropped_cnt is not null as is_lacking
from place as long
join gpu_op as op on op.gpu_op_id = long.ended_by
join _short_name as short on short.source_id = op.source_id and short.name_id = op.name_id
left join memory_operation as moved on moved.gpu_op_id = op.gpu_op_id
left join name as launching on launching.name_id = long.launching_id
left join readying on readying.api_call_id = op.api_call_id
left join dropped on dropped.ended_by = long.ended_by and dropped.rule = long.rule
left join told on told.ended_by = long.ended_by and told.rule = long.rule
left join _place_sample as sampled
    on sampled.source_id = long.source_id
    and sampled.rule = long.rule
    and sampled.place is not distinct from long.place
left join seen as cpu
    on cpu.source_id = long.source_id
    and cpu.rule = long.rule
    and cpu.place is not distinct from long.place
