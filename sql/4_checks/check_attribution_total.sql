-- A row is an input whose owned and unattributed GPU work do not add up to all of its GPU work.

with
owned as (
    select source_id, sum(self_gpu_op_ns) as gpu_op_ns, sum(self_kernel_ns) as kernel_ns, sum(self_gpu_op_cnt) as gpu_op_cnt
    from range_summary
    group by source_id
),
without as (
    select source_id, sum(gpu_op_ns) as gpu_op_ns, sum(kernel_ns) as kernel_ns, sum(gpu_op_cnt) as gpu_op_cnt
    from unattributed
    group by source_id
),
total as (
    select
        source_id,
        sum(end_ns - start_ns) as gpu_op_ns,
        coalesce(sum(end_ns - start_ns) filter (kind = 'kernel'), 0) as kernel_ns,
        count(*) as gpu_op_cnt
    from gpu_op
    group by source_id
)
select
    total.source_id,
    total.gpu_op_ns as expected_ns,
    coalesce(owned.gpu_op_ns, 0) + coalesce(without.gpu_op_ns, 0) as found_ns
from total
left join owned using (source_id)
left join without using (source_id)
where total.gpu_op_ns <> coalesce(owned.gpu_op_ns, 0) + coalesce(without.gpu_op_ns, 0)
    or total.kernel_ns <> coalesce(owned.kernel_ns, 0) + coalesce(without.kernel_ns, 0)
    or total.gpu_op_cnt <> coalesce(owned.gpu_op_cnt, 0) + coalesce(without.gpu_op_cnt, 0)
