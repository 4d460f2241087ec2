-- A row is one range: when it was open, what it cost the CPU and what GPU work it accounts for.
--
-- GPU work counts as in range_summary, for this one range: nested ranges included, each operation once. Python
-- frames (kind 'python') are listed with their times; GPU work is not attributed to them. Launches count wherever they
-- are: those of a backward on another thread may take longer than the range was open.
--
-- columns:
--   range_id             bigint    key
--   name                 varchar   its name, without what makes the text of each call unique
--   path                 varchar   names from the outermost range to this one, joined by '/'; NULL for Python frames
--   text                 varchar   its text as the file has it
--   kind                 varchar   'annotation', 'operator', 'library' or 'python'
--   style                varchar   'PushPop', 'StartEnd' or 'Complete' (a Kineto event)
--   pid                  bigint    process
--   tid                  bigint    thread that opened it
--   start_ns             bigint    start, on the file's clock
--   end_ns               bigint    end
--   wall_ns              bigint    end - begin
--   self_wall_ns         bigint    wall_ns without the time covered by ranges below
--   launch_cnt           bigint    launching calls
--   launch_api_ns        bigint    summed duration of the launching calls, each once
--   launch_wait_ns       bigint    how much of it they waited for the GPU (sync_summary): not what launching costs
--   queue_ns             bigint    sum over GPU operations of max(0, start - end of the launching call)
--   launch_latency_ns    bigint    sum over GPU operations of start - start of the launching call
--   gpu_op_cnt           bigint    GPU operations
--   gpu_op_ns            bigint    their summed duration
--   kernel_cnt           bigint    kernels
--   kernel_ns            bigint    their summed duration
--   gpu_busy_ns          bigint    length of the union of the GPU operations, per device, added up over devices
--   gpu_span_ns          bigint    last GPU end - first GPU start, NULL without GPU work (nsys: projected duration)
--   first_gpu_start_ns   bigint    start of the first GPU operation, NULL without
--   last_gpu_end_ns      bigint    end of the last GPU operation, NULL without
--   launch_overhead_ns   bigint    wall - GPU busy time within the range, NULL where the input holds no GPU work
--   self_gpu_op_cnt      bigint    GPU operations for which this is the innermost range
--   self_gpu_op_ns       bigint    their summed duration
--   self_kernel_cnt      bigint    kernels among them
--   self_kernel_ns       bigint    their summed duration
--   is_unfinished        boolean   true if its end was not recorded: closed at its thread's last event
--   sequence_number      bigint    autograd sequence number, NULL without
--   is_backward          boolean   true for a backward node of autograd
--   parent_id            bigint    the range that encloses it, NULL at the top
--   depth                integer   0 at the top
--   path_id              bigint    its name path
--   source_id            integer   the input, see trace_info
--   rank                 integer   rank of the input, NULL if not recorded

select
    range.range_id,
    name.text as name,
    range_path.path,
    full_text.text,
    range.kind::varchar as kind,
    range.style::varchar as style,
    thread.pid,
    thread.tid,
    range.start_ns,
    range.end_ns,
    range.end_ns - range.start_ns as wall_ns,
    range.end_ns - range.start_ns - range.covered_ns as self_wall_ns,
    if(range.kind <> 'python', coalesce(measure.launch_cnt, 0), null) as launch_cnt,
    if(range.kind <> 'python', coalesce(measure.launch_api_ns, 0), null) as launch_api_ns,
    if(range.kind <> 'python', coalesce(waiting.wait_ns, 0), null) as launch_wait_ns,
    if(range.kind <> 'python', coalesce(measure.queue_ns, 0), null) as queue_ns,
    if(range.kind <> 'python', coalesce(measure.launch_latency_ns, 0), null) as launch_latency_ns,
    if(range.kind <> 'python', coalesce(measure.gpu_op_cnt, 0), null) as gpu_op_cnt,
    if(range.kind <> 'python', coalesce(measure.gpu_op_ns, 0), null) as gpu_op_ns,
    if(range.kind <> 'python', coalesce(measure.kernel_cnt, 0), null) as kernel_cnt,
    if(range.kind <> 'python', coalesce(measure.kernel_ns, 0), null) as kernel_ns,
    if(range.kind <> 'python', coalesce(measure.gpu_busy_ns, 0), null) as gpu_busy_ns,
    measure.last_gpu_end_ns - measure.first_gpu_start_ns as gpu_span_ns,
    measure.first_gpu_start_ns,
    measure.last_gpu_end_ns,
    if(
        range.kind <> 'python' and gpu.source_id is not null,
        range.end_ns - range.start_ns - coalesce(measure.gpu_busy_inside_ns, 0),
        null
    ) as launch_overhead_ns,
    if(range.kind <> 'python', coalesce(own.self_gpu_op_cnt, 0), null) as self_gpu_op_cnt,
    if(range.kind <> 'python', coalesce(own.self_gpu_op_ns, 0), null) as self_gpu_op_ns,
    if(range.kind <> 'python', coalesce(own.self_kernel_cnt, 0), null) as self_kernel_cnt,
    if(range.kind <> 'python', coalesce(own.self_kernel_ns, 0), null) as self_kernel_ns,
    range.is_unfinished,
    range.sequence_number,
    range.is_backward,
    range.parent_id,
    range.depth,
    range.path_id,
    range.source_id,
    source.rank
from range
join range_path using (path_id)
join name on name.name_id = range.name_id
join name as full_text on full_text.name_id = range.text_id
join thread on thread.source_id = range.source_id and thread.thread_id = range.thread_id
join source on source.source_id = range.source_id
left join range_measure as measure using (range_id)
left join _range_own as own using (range_id)
left join _range_wait as waiting using (range_id)
left join _source_with_gpu as gpu on gpu.source_id = range.source_id
order by range.range_id
