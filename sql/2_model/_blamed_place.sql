-- A row is the idle gaps that are blamed on one rule in the ranges of one path.
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

select
    gap.source_id,
    gap.rule,
    range_path.path as place,
    sum(gap.saving_ns) as saving_ns,
    count(*) as occurrence_cnt,
    avg(gap.idle_ns) as mean_ns,
    max(gap.idle_ns) as longest_ns,
    arg_max(gap.gpu_op_id, gap.idle_ns) as ended_by
from _judged_gap as gap
left join range_path using (path_id)
where gap.rule is not null
group by gap.source_id, gap.rule, range_path.path
