-- A row is one range with GPU work, projected onto the GPU: from its first operation there to its last.
--
-- Equals nsys' nvtx_gpu_proj_trace for work launched inside ranges; work found by the sequence and window rules counts,
-- too. Ranges without GPU work have no projection.
--
-- columns:
--   text             varchar   the range's text as the file has it
--   path             varchar   its name path
--   style            varchar   'PushPop', 'StartEnd' or 'Complete'
--   pid              bigint    process
--   tid              bigint    thread
--   proj_start_ns    bigint    start of its first GPU operation
--   proj_end_ns      bigint    end of its last GPU operation
--   gpu_span_ns      bigint    proj_end_ns - proj_start_ns
--   gpu_busy_ns      bigint    time in which its work ran, per device, added up
--   start_ns         bigint    start of the range
--   end_ns           bigint    end of the range
--   wall_ns          bigint    end_ns - start_ns
--   gpu_op_cnt       bigint    GPU operations
--   kernel_cnt       bigint    kernels among them
--   depth            integer   ranges around it
--   range_id         bigint    key
--   parent_id        bigint    the range around it, NULL at the top
--   source_id        integer   the input, see trace_info
--   rank             integer   rank of the input, NULL if not recorded

select
    name.text,
    range_path.path,
    range.style::varchar as style,
    thread.pid,
    thread.tid,
    measure.first_gpu_start_ns as proj_start_ns,
    measure.last_gpu_end_ns as proj_end_ns,
    measure.last_gpu_end_ns - measure.first_gpu_start_ns as gpu_span_ns,
    measure.gpu_busy_ns,
    range.start_ns,
    range.end_ns,
    range.end_ns - range.start_ns as wall_ns,
    measure.gpu_op_cnt,
    measure.kernel_cnt,
    range.depth,
    range.range_id,
    range.parent_id,
    range.source_id,
    source.rank
from range_measure as measure
join range using (range_id)
join range_path using (path_id)
join name on name.name_id = range.text_id
join thread on thread.source_id = range.source_id and thread.thread_id = range.thread_id
join source on source.source_id = range.source_id
order by range.source_id, proj_start_ns, range.depth, range.range_id
