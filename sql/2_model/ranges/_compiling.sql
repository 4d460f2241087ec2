-- A row is a time in which something was compiled by torch.compile, a compiled kernel loaded, or a CUDA graph made.
--
-- A graph is made from the start of its capture, in which nothing that is launched runs, to when it is instantiated, if that
-- follows within as much time as the capture took; else in both.
-- CUDA loads a kernel in the call that launches it first, unless its module was loaded before: such a call takes longer than
-- the threshold long_gap_ns, without having waited for the GPU. Loading goes on behind it: until the kernel begins, where that
-- is no more than twice as long after the call as the call took.
--
-- columns:
--   source_id   integer   the input
--   process     bigint    the process, as _work_process has it
--   place       varchar   the path of the compiling range, or the call that loaded
--   start_ns    bigint    begin
--   end_ns      bigint    end
--   what        varchar   'compiled', 'loaded' or 'made'

with
slow as (
    select call.api_call_id, call.source_id, call.thread_id, call.name_id, call.start_ns, call.end_ns
    from (
        from api_call
        where end_ns - start_ns > (select value from threshold where name = 'long_gap_ns') and not is_duplicate
    ) as call
    left join _call_wait as wait using (api_call_id)
    where call.end_ns - call.start_ns - coalesce(wait.wait_ns, 0) > (select value from threshold where name = 'long_gap_ns')
        and call.name_id in (
            select name_id from name where contains(lower(text), 'launch') and not contains(text, 'GraphLaunch')
        )
),
launched as (
    select slow.*, op.process_id, op.name_id as kernel_name_id, op.start_ns as op_start_ns
    from slow
    join gpu_op as op using (api_call_id)
    where op.kind = 'kernel'
),
used as (
    select op.source_id, op.process_id, op.name_id as kernel_name_id, min(op.start_ns) as op_start_ns
    from gpu_op as op
    semi join launched on launched.source_id = op.source_id and launched.kernel_name_id = op.name_id
    group by all
),
making as (
    select call.source_id, call.thread_id, name.text, call.start_ns, call.end_ns
    from api_call as call
    join name using (name_id)
    where regexp_matches(name.text, '^(cu|cuda|hip)((Module|Library)Load|Stream(Begin|End)Capture|GraphInstantiate)')
        and not call.is_duplicate
),
captured as (
    select
        ended.source_id,
        ended.thread_id,
        begun.text,
        begun.start_ns,
        ended.end_ns,
        if(made.start_ns - ended.end_ns <= ended.end_ns - begun.start_ns, made.start_ns, null) as made_ns,
        if(made_ns is null, ended.end_ns, made.end_ns) as made_end_ns
    from making as ended
    asof join (from making where contains(text, 'BeginCapture')) as begun
        on begun.source_id = ended.source_id and begun.thread_id = ended.thread_id and begun.start_ns <= ended.start_ns
    asof left join (from making where contains(text, 'GraphInstantiate')) as made
        on made.source_id = ended.source_id and made.thread_id = ended.thread_id and made.start_ns >= ended.end_ns
    where contains(ended.text, 'EndCapture')
)
select range.source_id, own.process, range_path.path as place, range.start_ns, range.end_ns, 'compiled' as what
from range
join _work_process as own using (source_id, thread_id)
join range_path using (path_id)
where range_path.path like '% (dynamo_timed)' and not regexp_matches(range_path.path, '\(dynamo_timed\)/')
union all by name
select
    call.source_id,
    own.process,
    call.text as place,
    call.start_ns,
    call.end_ns,
    if(contains(call.text, 'Load'), 'loaded', 'made') as what
from (
    select making.*
    from making
    anti join captured
        on captured.source_id = making.source_id and captured.thread_id = making.thread_id and captured.made_ns = making.start_ns
    where not contains(making.text, 'Capture')
    union all by name
    select source_id, thread_id, text, start_ns, made_end_ns as end_ns from captured
) as call
join _work_process as own using (source_id, thread_id)
union all by name
select
    launched.source_id,
    own.process,
    name.text as place,
    launched.start_ns,
    if(
        launched.op_start_ns - launched.end_ns between 0 and 2 * (launched.end_ns - launched.start_ns),
        launched.op_start_ns, launched.end_ns
    ) as end_ns,
    'loaded' as what
from launched
join used
    on used.source_id = launched.source_id
    and used.process_id is not distinct from launched.process_id
    and used.kernel_name_id = launched.kernel_name_id
    and used.op_start_ns = launched.op_start_ns
join name on name.name_id = launched.name_id
join _work_process as own on own.source_id = launched.source_id and own.thread_id = launched.thread_id
