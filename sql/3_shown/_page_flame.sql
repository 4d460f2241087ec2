-- A row is GPU work of one name that ranges of one path own, each operation once, and what launching it cost.
--
-- Work that a thread without a range of the path's own launched (autograd's, on a GPU) has the path of the range in whose
-- window it was launched beside it, where that is known. The owner is that of range_summary's self columns; work that no
-- range owns has no path (unattributed).
--
-- columns:
--   source_id      integer    the input
--   path_id        bigint     the path that owns it, NULL outside of all ranges
--   host_path_id   bigint     the path of the range in whose window another thread launched it, NULL where there is none
--   name           varchar    short name of the kernel or copy
--   class          varchar    what kind of work it is
--   gpu_op_cnt     bigint     operations
--   gpu_op_ns      bigint     their summed duration
--   kernel_ns      bigint     of that kernels
--   launch_ns      bigint     time of the launching calls, without what they waited for the GPU

with
host as (
    select reach.api_call_id, arg_max(range.path_id, range.start_ns) as path_id
    from reach
    join range using (range_id)
    where reach.rule = 'window' and not reach.is_alone
    group by reach.api_call_id
),
work as (
    select
        op.source_id,
        owner.path_id,
        host.path_id as host_path_id,
        op.name_id,
        op.kind,
        count(*) as gpu_op_cnt,
        sum(op.end_ns - op.start_ns) as gpu_op_ns,
        sum(op.end_ns - op.start_ns) filter (op.kind = 'kernel') as kernel_ns,
        sum(op.launch_end_ns - op.launch_start_ns - coalesce(waiting.wait_ns, 0)) filter (op.is_first_op) as launch_ns
    from gpu_op as op
    left join _owner as owner using (attribution_id)
    left join host on host.api_call_id = op.api_call_id
    left join _call_wait as waiting on waiting.api_call_id = op.api_call_id
    group by all
)
select
    work.source_id,
    work.path_id,
    work.host_path_id,
    short.short_name as name,
    op_class.class,
    work.gpu_op_cnt,
    work.gpu_op_ns::bigint as gpu_op_ns,
    coalesce(work.kernel_ns, 0)::bigint as kernel_ns,
    coalesce(work.launch_ns, 0)::bigint as launch_ns
from work
join _short_name as short on short.source_id = work.source_id and short.name_id = work.name_id
join _op_class as op_class
    on op_class.name_id = work.name_id
    and op_class.path_id is not distinct from work.path_id
    and op_class.kind = work.kind
order by work.source_id, work.gpu_op_ns desc, work.path_id, work.host_path_id, name
