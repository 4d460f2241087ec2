-- A row is one collective operation of the source that is being read, with the kernels that it launched.
--
-- Calls are torch's record_param_comms; where a file has none, the ranges that torch's NCCL backend opens, or else those
-- of NCCL itself, which come first where their payloads are in the file; and the executions that gloo records. A kernel
-- belongs to the call in which it was launched (of NCCL's own ranges the last of its operation, since the launch comes
-- behind the range, at the end of the group). Kernels that communicate and that no call launched are rows of their own,
-- with what torch says on the kernel. gloo's executions do not say their group: where the file names one group alone it
-- is that, and of two ranks each sends to the other.
--
-- needs: api_call, collective, gpu_op, kernel_class_rule, name, nccl_payload, only_group, range, reading, source,
--        staged_collective

with
pattern as (
    select string_agg(pattern, '|' order by priority) as pattern
    from kernel_class_rule
    where subject = 'kernel' and class = 'communication'
),
work as materialized (
    select
        gpu_op.gpu_op_id,
        gpu_op.process_id,
        gpu_op.device_id,
        gpu_op.stream_id,
        gpu_op.start_ns,
        gpu_op.end_ns,
        gpu_op.launch_start_ns,
        api_call.thread_id,
        kernel.text
    from (select name_id, text from name, pattern where regexp_matches(text, pattern, 'i')) as kernel
    join gpu_op using (name_id)
    join reading on reading.source_id = gpu_op.source_id
    left join api_call using (api_call_id)
    where gpu_op.kind = 'kernel'
),
named as materialized (
    select
        case when name.text like 'gloo:%' then 'gloo' when name.text like 'nccl:%' then 'range' else 'library' end as found_by,
        range.thread_id,
        range.start_ns,
        range.end_ns,
        regexp_replace(name.text, '^(gloo|nccl|NCCL):', '') as name,
        list_filter(
            list_zip(
                try_cast(split_part(shape.text, '|', 1) as json)::bigint[][],
                try_cast(split_part(shape.text, '|', 2) as json)::varchar[]
            ),
            lambda pair: element_bytes(pair[2]) is not null
        ) as tensors
    from (select name_id, text from name where regexp_matches(text, '^(gloo:|nccl:|NCCL:nccl)')) as name
    join range using (name_id)
    join reading on reading.source_id = range.source_id
    left join name as shape on shape.name_id = range.shape_id and shape.text like '[[%'
),
shaped as materialized (
    select
        * exclude (tensors),
        tensors[1][2] as dtype,
        list_sum(list_transform(tensors, lambda pair: element_bytes(pair[2]) * list_product(pair[1])))::bigint as in_bytes
    from named
),
described as (
    select
        'record_param_comms' as found_by,
        staged.* exclude (is_kernel, device_id, stream_id)
            replace (if(shaped.end_ns <= staged.end_ns, coalesce(staged.name, shaped.name), staged.name) as name),
        if(shaped.end_ns <= staged.end_ns, shaped.dtype, null) as shaped_dtype,
        if(shaped.end_ns <= staged.end_ns, shaped.in_bytes, null) as shaped_bytes
    from (from staged_collective where not is_kernel) as staged
    asof left join (from shaped where found_by = 'range') as shaped
        on shaped.thread_id = staged.thread_id and shaped.start_ns >= staged.start_ns
),
call as materialized (
    select *, row_number() over (order by start_ns, end_ns desc, thread_id) as call_id
    from (
        from described
        union all by name
        select found_by, thread_id, start_ns, end_ns, name, dtype as shaped_dtype, in_bytes as shaped_bytes
        from shaped
        where found_by = 'gloo'
            or not exists (from staged_collective where not is_kernel)
            and if(
                exists (from nccl_payload where bytes is not null),
                found_by = 'library',
                found_by = 'range' or not exists (from shaped where found_by = 'range')
            )
    )
),
-- each mention of this macro costs as much to plan as a small file to read
meaning as materialized (
    select text, collective_operation(text) as operation
    from (
        select text from work
        union
        select name from call
        union
        select name from staged_collective
    )
),
launched as (
    select
        work.*,
        if(
            work.launch_start_ns <= call.end_ns
                or call.found_by = 'library' and call.operation is not distinct from meaning.operation,
            call.call_id,
            null
        ) as call_id
    from work
    join meaning using (text)
    asof left join (
        select call.*, meaning.operation
        from call
        left join meaning on meaning.text = call.name
        where call.found_by <> 'gloo'
    ) as call
        on call.thread_id = work.thread_id and call.start_ns <= work.launch_start_ns
),
worked as (
    select
        call_id,
        any_value(process_id) as process_id,
        any_value(device_id order by start_ns, gpu_op_id) as device_id,
        any_value(stream_id order by start_ns, gpu_op_id) as stream_id,
        min(start_ns) as work_start_ns,
        max(end_ns) as work_end_ns,
        count(*) as work_cnt,
        any_value(text order by start_ns, gpu_op_id) as text
    from launched
    where call_id is not null
    group by call_id
),
found as (
    select
        call.* exclude (call_id),
        thread.process_id,
        coalesce(call.name, worked.text) as called,
        worked.device_id,
        worked.stream_id,
        if(call.found_by = 'gloo', call.start_ns, worked.work_start_ns) as work_start_ns,
        if(call.found_by = 'gloo', call.end_ns, worked.work_end_ns) as work_end_ns,
        coalesce(worked.work_cnt, 0) as work_cnt
    from call
    left join worked using (call_id)
    left join (thread semi join reading using (source_id)) as thread on thread.thread_id = call.thread_id
    union all by name
    select
        'kernel' as found_by,
        launched.process_id,
        coalesce(staged.name, launched.text) as name,
        coalesce(staged.name, launched.text) as called,
        launched.device_id,
        launched.stream_id,
        launched.start_ns as work_start_ns,
        launched.end_ns as work_end_ns,
        1 as work_cnt,
        staged.* exclude (is_kernel, name, device_id, stream_id, thread_id, start_ns, end_ns)
    from launched
    left join staged_collective as staged
        on staged.is_kernel
        and staged.device_id = launched.device_id
        and staged.stream_id = launched.stream_id
        and staged.start_ns = launched.start_ns
        and staged.end_ns = launched.end_ns
    where launched.call_id is null
),
payload as (
    select
        thread_id,
        start_ns,
        any_value(communicator) as communicator,
        any_value(bytes) as bytes,
        any_value(rank_cnt) as rank_cnt,
        any_value(rank) as rank,
        any_value(peer) as peer,
        any_value(root) as root
    from nccl_payload
    group by thread_id, start_ns
),
-- the group of a file that names one alone, and for a group of two the rank and its peer
lone as (
    select
        only_group.ranks,
        if(len(only_group.ranks) = 2, source.rank, null) as rank,
        if(len(only_group.ranks) = 2, list_filter(only_group.ranks, lambda one: one <> source.rank)[1], null) as peer
    from only_group
    cross join reading
    join source on source.source_id = reading.source_id
    where list_contains(only_group.ranks, source.rank)
)
select
    (select count(*) from collective)
    + row_number() over (order by coalesce(found.start_ns, work_start_ns), coalesce(found.end_ns, work_end_ns), found.thread_id,
        device_id, stream_id) - 1 as collective_id,
    reading.source_id,
    if(kind_has_one_process(source.kind), null, found.process_id) as process_id,
    found.thread_id,
    found.start_ns,
    found.end_ns,
    found.found_by,
    found.name,
    meaning.operation,
    coalesce(found.dtype, found.shaped_dtype) as dtype,
    found.in_element_cnt,
    found.out_element_cnt,
    coalesce(
        found.in_element_cnt * element_bytes(found.dtype),
        found.shaped_bytes,
        -- NCCL says what a rank has, of a reduce-scatter what it gets
        case
            when meaning.operation in ('all_reduce', 'all_gather', 'broadcast', 'reduce', 'send')
                then payload.bytes
            when meaning.operation = 'reduce_scatter' then payload.bytes * payload.rank_cnt
        end
    ) as in_bytes,
    coalesce(
        found.out_element_cnt * element_bytes(found.dtype),
        if(meaning.operation in ('all_reduce', 'broadcast', 'reduce'), found.shaped_bytes, null),
        case
            when meaning.operation in ('all_reduce', 'reduce_scatter', 'broadcast', 'reduce', 'recv')
                then payload.bytes
            when meaning.operation = 'all_gather' then payload.bytes * payload.rank_cnt
        end
    ) as out_bytes,
    coalesce(found.group_size, payload.rank_cnt, len(lone.ranks)) as group_size,
    coalesce(found.group_name, payload.communicator) as group_name,
    found.group_description,
    coalesce(found.group_ranks, lone.ranks::varchar) as group_ranks,
    found.comms_id,
    found.seq,
    case
        when found.src_rank is not null then found.src_rank
        when meaning.operation = 'send' then coalesce(payload.rank, lone.rank)
        when meaning.operation = 'recv' then coalesce(payload.peer, lone.peer)
        when meaning.operation = 'broadcast' then payload.root
    end as src_rank,
    case
        when found.dst_rank is not null then found.dst_rank
        when meaning.operation = 'send' then coalesce(payload.peer, lone.peer)
        when meaning.operation = 'recv' then coalesce(payload.rank, lone.rank)
        when meaning.operation = 'reduce' then payload.root
    end as dst_rank,
    found.device_id,
    found.stream_id,
    found.work_start_ns,
    found.work_end_ns,
    found.work_cnt
from found
left join meaning on meaning.text = found.called
cross join reading
join source on source.source_id = reading.source_id
left join lone on found.found_by = 'gloo' and found.group_name is null
left join payload
    on found.found_by = 'library' and payload.thread_id = found.thread_id and payload.start_ns = found.start_ns
