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
--   long_cnt         bigint    gaps that are not far shorter: in a power of two in which one has an eighth of that
--   long_ns          bigint    their length
--   ended_by         bigint    the operation that ended the longest
--   ended_by_ns      double    how long the operations take that ended them, on average

with
-- by path, of which there are few, before its name is looked up, and by powers of two
blamed as (
    select source_id, rule::varchar as rule, path_id, floor(log2(idle_ns)) as power, sum(saving_ns) as saving_ns, count(*) as cnt, sum(idle_ns) as idle_ns,
        max(idle_ns) as longest_ns, arg_max(gpu_op_id, idle_ns) as ended_by, sum(ended_by_ns) as ended_by_ns
    from _judged_gap
    where rule is not null
    group by all
    union all
    select gap.source_id, 'host_work', range.path_id, floor(log2(gap.idle_ns)), sum(gap.saving_ns), count(*), sum(gap.idle_ns),
        max(gap.idle_ns), arg_max(gap.gpu_op_id, gap.idle_ns), sum(gap.ended_by_ns)
    from _judged_gap as gap
    join gpu_op using (gpu_op_id)
    left join range using (range_id)
    where gap.rule in ('blocking_copy', 'pageable_async_copy', 'synchronisation') and gap.cause = 'host'
    group by all
),
placed as (
    select
        blamed.*,
        range_path.path as place,
        8 * blamed.longest_ns >= max(blamed.longest_ns) over (
            partition by blamed.source_id, blamed.rule, range_path.path
        ) as are_long
    from blamed
    left join range_path using (path_id)
)
select
    source_id,
    rule,
    place,
    sum(saving_ns) as saving_ns,
    sum(cnt)::bigint as occurrence_cnt,
    sum(idle_ns) / sum(cnt) as mean_ns,
    max(longest_ns) as longest_ns,
    sum(cnt) filter (are_long)::bigint as long_cnt,
    sum(idle_ns) filter (are_long)::bigint as long_ns,
    arg_max(ended_by, longest_ns) as ended_by,
    sum(ended_by_ns) / sum(cnt) as ended_by_ns
from placed
group by source_id, rule, place
