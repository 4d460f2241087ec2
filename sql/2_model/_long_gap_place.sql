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

with
place as (
    select
        long.*,
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
    select distinct thread_id
    from place
    where rule = 'long_dependency'
),
event as (
    select call.thread_id, call.start_ns, name.text as api_name
    from api_call as call
    semi join waiting using (thread_id)
    join name using (name_id)
    where regexp_matches(name.text, '^(cu|cuda|hip)StreamWaitEvent')
),
launch as (
    select call.thread_id, call.start_ns
    from api_call as call
    semi join (select distinct thread_id from event) as telling using (thread_id)
    semi join gpu_op using (api_call_id)
),
-- the last time before each launch that a stream was told to wait for an event, if it is the launch's own
told as (
    select distinct place.rule, place.ended_by, event.api_name
    from place
    asof join event on event.thread_id = place.thread_id and event.start_ns < place.launch_ns
    asof left join launch on launch.thread_id = place.thread_id and launch.start_ns < place.launch_ns
    where place.rule = 'long_dependency' and coalesce(launch.start_ns < event.start_ns, true)
)
select
    long.source_id,
    long.rule,
    if(cpu.is_between and cpu.cpu_kind is null and launching.text is null, '(between steps)', long.place) as place,
    long.saving_ns,
    long.occurrence_cnt,
    if(long.occurrence_cnt = 1, 'a gap of ', format('{:,} gaps, the longest ', long.occurrence_cnt))
    || format('{}, ended by {}', said_ns(long.longest_ns), short.short_name)
    || coalesce('; before its launch a stream was told to wait for an event (' || told.api_name || ')', '')
    || case
        when launching.text is not null then '; in it the CPU is in ' || launching.text || ' itself'
        when cpu.rule is null or long.rule = 'long_dependency' and cpu.cpu_kind is distinct from 'call' then ''
        else '; in it the CPU is ' || if(cpu.is_between and cpu.cpu_kind is null, 'between two steps, ', '')
            || 'in ' || cpu.cpu_in
    end as evidence,
    coalesce(ddp_advice(long.place), case
        when regexp_matches(long.place, '[nr]cclComm(Init|Split|Destroy|Finalize|Abort)')
            then 'A communicator is made or given up there, which is paid once: begin the recording behind warm steps.'
        when contains(launching.text, 'GraphLaunch')
            then 'The first launch of a graph makes it ready: replay it once before the recording begins. If each takes so '
                || 'long, the graph has many nodes: launch ahead of the GPU, or capture fewer and larger kernels.'
        when launching.text is not null and readying.api_call_id is not null
            then format('The first call makes CUDA ready, which is paid once: warm up before the recording begins. Later ones '
                || 'take {} at most{}.', said_ns(readying.later_ns),
                if(contains(lower(short.short_name), 'pageable'), ', from pinned memory less', ''))
        when launching.text is not null and op.kind in ('memcpy', 'memset')
            then 'The call itself takes so long before anything moves: what is pageable is copied to a buffer of the '
                || 'driver first, so copy from pinned memory; a first call makes CUDA ready.'
        when launching.text is not null
            then 'The launch itself takes so long: the first one of a kernel loads it, so warm up before the recording '
                || 'begins; later ones wait for a lock or a core.'
        when cpu.rule is null and long.rule = 'host_work' then null  -- its own advice
        when cpu.rule is null
            then if(has_torch(long.source_id),
                'Look at what the CPU did before the launch: reading input, Python, logging, checkpoints, evaluation, '
                || 'allocating. Name it with ranges (lorabench.span), or record Python''s stacks.',
                'Look at what the CPU did before the launch: reading input, writing files, logging, allocating. Name it '
                || 'with ranges (NVTX), or record the CPU''s samples (nsys profile --sample=process-tree).')
        when cpu.os_kind = 'reads'
            then 'It reads a file, a pipe or a terminal there: read ahead in threads or processes of their own, from memory or a '
                || 'faster disk.'
        when cpu.os_kind = 'writes'
            then 'It writes there: log and save more rarely, or in a thread of its own.'
        when cpu.os_kind = 'sleeps'
            then 'The program sleeps there: look for sleep() in its own code, or for a library that polls.'
        when cpu.os_kind = 'waits'
            then 'It waits there for another thread or process: mostly for a batch of the loader (more workers, prefetching), or for '
                || 'a lock. What the other threads do then is in the views os_summary and range_summary.'
        when cpu.os_kind = 'calls'
            then 'It is in the operating system there: look at what asks for it (nsys profile --osrt-backtrace, on by default, has '
                || 'the stacks).'
        when cpu.cpu_kind is null and cpu.is_between
            then 'Most loops get their input there. '
                || if(has_torch(long.source_id),
                    'Load ahead: DataLoader(num_workers=…, prefetch_factor=…, persistent_workers=True).',
                    'Load ahead: read and prepare it in threads of its own.')
                || ' If it logs, saves or evaluates instead: more rarely; ranges '
                || if(has_torch(long.source_id), '(lorabench.span)', '(NVTX)') || ' say which.'
        when cpu.cpu_kind is null
            then 'Name what the CPU does there with ranges '
                || if(has_torch(long.source_id),
                    '(lorabench.span), or record Python''s stacks (with_stack=True)',
                    '(NVTX), or record its samples (nsys profile --sample=process-tree)')
                || if(cpu.is_partly, ': most of it is not', ': nothing of it is') || ' in the trace. Often it reads input, logs, '
                || 'saves or compiles.'
        when cpu.cpu_kind = 'call' and long.longest_ns >= 1000000000
            then 'So long a call makes CUDA or a library ready, which is paid once: warm up before the recording begins.'
        when cpu.cpu_kind = 'call' and regexp_matches(cpu.cpu_in, 'Create')
            then 'Streams, events and handles are made once, not in each step: warm up before the recording begins.'
        when cpu.cpu_kind = 'call' and regexp_matches(cpu.cpu_in, 'ProfilerSt(art|op)')
            then 'A profiler begins or ends its recording there, which a run without it does not pay.'
        when cpu.cpu_kind = 'call' and regexp_matches(cpu.cpu_in, 'HostAlloc|HostRegister|MallocHost|HostMalloc')
            then 'Memory of the host is pinned there, which takes long: pin buffers once, before what counts, and keep them.'
        when cpu.cpu_kind = 'call'
            and (long.occurrence_cnt <= 2 or 2 * long.longest_ns > long.saving_ns)
            and regexp_matches(cpu.cpu_in, '(?i)free|malloc')
            then 'Once, it is a library that makes itself ready (cuBLAS, cuDNN): warm up before the recording begins. In '
                || 'each step it is an allocator without a cache, or memory so full that it frees by itself.'
        when cpu.cpu_kind = 'call' and regexp_matches(cpu.cpu_in, '(Malloc|Alloc)(Async|FromPool)')
            then 'A pool gives its memory back at each synchronisation unless it is told to keep it: set '
                || 'cudaMemPoolAttrReleaseThreshold, or allocate once.'
        when cpu.cpu_kind = 'call' and regexp_matches(cpu.cpu_in, '(?i)free|malloc')
            then keep_memory_advice(has_torch(long.source_id))
        when cpu.cpu_kind = 'call'
            then 'Avoid this call within steps: keep what is allocated, load kernels beforehand. If it '
                || 'should be quick, look for a lock or a missing core.'
        when cpu.cpu_kind = 'operator' and contains(short.short_name, 'HtoD')
            and not regexp_matches(cpu.cpu_in, 'copy|aten::(to|pin_memory|clone|contiguous|empty)\b')
            then 'The CPU computes there what is then copied: compute it on the GPU (device="cuda"), or ahead, in workers of '
                || 'a DataLoader.'
        when cpu.cpu_kind = 'operator'
            then 'Compare its calls (range_instance): if some alone are slow, it allocates, compiles or searches an '
                || 'algorithm (cudnn.benchmark, MIOpen), or lacks a core; if all are, call it less often.'
        when cpu.cpu_kind = 'many'
            then 'Do less in many small steps there: fewer and larger operators (fused, compiled, foreach), nothing '
                || 'asked of each tensor in Python.'
        when cpu.cpu_kind = 'python' and regexp_matches(cpu.cpu_in, '(?i)empty_?cache')
            then 'empty_cache() waits for the GPU and gives its memory back, and what follows asks for it anew: leave it out of '
                || 'steps.'
        when cpu.cpu_kind = 'python' and regexp_matches(cpu.cpu_in, '\bgc\.collect|<built-in function collect>|gc\.py')
            then 'Garbage is collected by hand there: leave it out of steps, or do it every few hundred.'
        when cpu.cpu_kind = 'python'
            then 'Look at what is done there besides launching: input, logging, saving, checks. What it calls is in the trace.'
        else 'Look at what is done there besides launching: input, logging, saving'
            || if(has_torch(long.source_id), ', Python. Narrower ranges (lorabench.span) or stacks', '. Narrower ranges (NVTX)')
            || ' say which part.'
    end) as what_to_do
from place as long
join gpu_op as op on op.gpu_op_id = long.ended_by
join _short_name as short on short.source_id = op.source_id and short.name_id = op.name_id
left join name as launching on launching.name_id = long.launching_id
left join readying on readying.api_call_id = op.api_call_id
left join told on told.ended_by = long.ended_by and told.rule = long.rule
left join _place_cpu as cpu
    on cpu.source_id = long.source_id
    and cpu.rule = long.rule
    and cpu.place is not distinct from long.place
