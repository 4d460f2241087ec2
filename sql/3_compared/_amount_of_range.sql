-- A row is an annotation and what range_summary adds up of it.
--
-- columns:
--   source_id           integer   the input
--   process             bigint    the process of its thread, as _work_process has it
--   at_ns               bigint    its start
--   key                 bigint    its path
--   is_outermost        boolean   whether it lies in no other range but those around whole steps
--   range_cnt           integer   1
--   wall_ns             bigint    its length
--   gpu_op_cnt          bigint    as in range_measure, like all below
--   kernel_cnt          bigint    kernels
--   launch_cnt          bigint    launching calls
--   launch_api_ns       bigint    time in them
--   queue_ns            bigint    time in the queue
--   launch_latency_ns   bigint    time from launch to start
--   gpu_op_ns           bigint    time of operations
--   kernel_ns           bigint    time of kernels
--   gpu_busy_ns         bigint    time in which any of them ran

select
    range.source_id,
    own.process,
    range.start_ns as at_ns,
    range.path_id as key,
    range.range_id not in (from _around_step)
    and (range.parent_id is null or range.parent_id in (from _around_step)) as is_outermost,
    1 as range_cnt,
    range.end_ns - range.start_ns as wall_ns,
    measure.gpu_op_cnt,
    measure.kernel_cnt,
    measure.launch_cnt,
    measure.launch_api_ns,
    measure.queue_ns,
    measure.launch_latency_ns,
    measure.gpu_op_ns,
    measure.kernel_ns,
    measure.gpu_busy_ns
from range
left join range_measure as measure using (range_id)
left join _work_process as own on own.source_id = range.source_id and own.thread_id = range.thread_id
where range.kind = 'annotation'
