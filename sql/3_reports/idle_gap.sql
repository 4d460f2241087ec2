-- A row is a time between two busy stretches in which a device did nothing, with its cause and what ended it.
--
-- cause is 'host' when the launching call of the work that ended the gap began after the gap did: the device waited
-- for the CPU; unless the work then waited, its call over, for more than half of the gap and longer than the threshold
-- late_launch_ns. It is 'host', too, when the call that launched a kernel had begun before, but took more than half of a gap
-- longer than the threshold kernel_wait_ns, or returned in it after longer than the threshold long_gap_ns and soon before
-- the kernel began: the first launch of a kernel loads it. Otherwise the work was waiting already: 'kernel_wait' when the
-- gap is no longer than the device's own distance between two kernels (twice the median gap before kernels that were
-- launched already, at most the threshold kernel_wait_ns), 'dependency' when it is longer (another stream, an event, a
-- copy, memory, a driver that hands it over late). Work whose launching call is not in the file was launched before it; but
-- pages of managed memory that move between kernels are touched by the CPU, which is 'host'. The gaps of a device add up to
-- its idle_ns in gpu_timeline_summary exactly.
--
-- columns:
--   device_id      integer   the device
--   start_ns       bigint    end of the work before
--   end_ns         bigint    start of the work after it
--   idle_ns        bigint    end_ns - start_ns
--   cause          varchar   'host', 'dependency' or 'kernel_wait'
--   ended_by       varchar   the kernel, copy or memset that ended the gap
--   api_name       varchar   the call that launched it, NULL if not recorded
--   launch_start_ns bigint   start of that call
--   waited_in      varchar   the call in which the CPU waited for the GPU until the gap had begun (sync_summary), or, where
--         work that is not recorded fills it, in the gap; NULL without
--   stream_id      bigint    its stream
--   path           varchar   name path of the range that owns it, NULL without one
--   gpu_op_id      bigint    key of the work that ended the gap, see launch_trace
--   source_id      integer   the input, see trace_info
--   rank           integer   rank of the input, NULL if not recorded

select
    gap.device_id,
    gap.start_ns,
    gap.end_ns,
    gap.idle_ns,
    gap.cause,
    name.text as ended_by,
    api_name.text as api_name,
    gpu_op.launch_start_ns,
    waited.text as waited_in,
    gpu_op.stream_id,
    range_path.path,
    gap.gpu_op_id,
    gap.source_id,
    source.rank
from _blamed_gap as gap
join gpu_op using (gpu_op_id)
join name on name.name_id = gpu_op.name_id
join source on source.source_id = gap.source_id
left join api_call using (api_call_id)
left join name as waited on waited.name_id = gap.waited_name_id
left join name as api_name on api_name.name_id = api_call.name_id
left join _owner as own using (attribution_id)
left join range_path on range_path.path_id = own.path_id
order by gap.source_id, gap.idle_ns desc, gap.start_ns
