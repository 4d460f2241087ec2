-- A row is the idle gaps that are blamed on one rule in the ranges of one path.
--
-- A gap behind a wait ends when the CPU, which was not ahead, has done its work up to the next launch. It is listed twice:
-- with the wait, at the range that waits, and as 'host_work', at the range of that launch. What the two save together is
-- what either leaves (_predicted_finding).
--
-- columns:
--   source_id        integer   the input
--   rule             varchar   the rule
--   place            varchar   name path of the range that is to be changed, NULL outside all ranges
--   saving_ns        double    what the input would save without them, at most
--   occurrence_cnt   bigint    gaps
--   mean_ns          double    their mean length
--   longest_ns       bigint    the length of the longest
--   ended_by         bigint    the operation that ended the longest

with
blamed as (
    select source_id, rule::varchar as rule, path_id, saving_ns, idle_ns, gpu_op_id
    from _judged_gap
    where rule is not null
    union all
    select gap.source_id, 'host_work', range.path_id, gap.saving_ns, gap.idle_ns, gap.gpu_op_id
    from _judged_gap as gap
    join gpu_op using (gpu_op_id)
    left join range using (range_id)
    where gap.rule in ('blocking_copy', 'pageable_async_copy', 'synchronisation') and gap.cause = 'host'
)
select
    gap.source_id,
    gap.rule,
    range_path.path as place,
    sum(gap.saving_ns) as saving_ns,
    count(*) as occurrence_cnt,
    avg(gap.idle_ns) as mean_ns,
    max(gap.idle_ns) as longest_ns,
    arg_max(gap.gpu_op_id, gap.idle_ns) as ended_by
from blamed as gap
left join range_path using (path_id)
group by gap.source_id, gap.rule, range_path.path
