-- A row is a name path whose GPU work is not what its instances account for, or that owns more work than it has.
--
-- An operation counts once in a path and once in each instance. Where one rule finds ranges for it, a path has one instance
-- around it; several rules may find one each. So the instances' sum lies between the path's own and the same with each
-- set taken as often as it has rules; where all sets have one rule, both are equal. Ranges that overlap partially set no
-- upper limit.

with
instance as (
    select range.path_id, sum(measure.gpu_op_ns) as gpu_op_ns, sum(measure.gpu_op_cnt) as gpu_op_cnt
    from range_measure as measure
    join range using (range_id)
    group by range.path_id
),
limits as (
    select
        attribution.path_id,
        if(bool_or(set_work.rule_cnt is null), null, sum(set_work.gpu_op_ns * set_work.rule_cnt)) as most_ns,
        if(bool_or(set_work.rule_cnt is null), null, sum(set_work.gpu_op_cnt * set_work.rule_cnt)) as most_cnt
    from attribution
    join set_work using (attribution_id)
    group by attribution.path_id
)
select
    range_summary.path_id,
    range_summary.gpu_op_ns as path_ns,
    coalesce(instance.gpu_op_ns, 0) as instance_ns,
    coalesce(limits.most_ns, 0) as most_ns
from range_summary
left join instance using (path_id)
left join limits using (path_id)
where range_summary.gpu_op_ns > instance_ns
    or range_summary.gpu_op_cnt > coalesce(instance.gpu_op_cnt, 0)
    or instance_ns > if(limits.path_id is null, 0, limits.most_ns)
    or coalesce(instance.gpu_op_cnt, 0) > if(limits.path_id is null, 0, limits.most_cnt)
    or range_summary.self_gpu_op_ns > range_summary.gpu_op_ns
    or range_summary.gpu_busy_ns > range_summary.gpu_op_ns
