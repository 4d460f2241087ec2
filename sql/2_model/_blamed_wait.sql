-- A row is the idle gaps behind the waits of one rule in the ranges of one path.
--
-- columns:
--   source_id        integer   the input
--   rule             varchar   'synchronisation', 'blocking_copy' or 'pageable_async_copy'
--   place            varchar   name path of the range that waits, NULL outside all ranges
--   saving_ns        double    what the input would save without them, at most
--   occurrence_cnt   bigint    gaps
--   evidence         varchar   how often which calls, and how long the GPU is idle then

select
    gap.source_id,
    gap.rule,
    range_path.path as place,
    sum(gap.saving_ns) as saving_ns,
    count(*) as occurrence_cnt,
    format('{} times {}, then the GPU is idle for {} on average', count(*),
        string_agg(distinct name.text, ', ' order by name.text), said_ns(avg(gap.idle_ns))) as evidence
from _blamed_gap as gap
left join name on name.name_id = gap.waited_name_id
left join range_path using (path_id)
where gap.rule in ('synchronisation', 'blocking_copy', 'pageable_async_copy')
group by gap.source_id, gap.rule, range_path.path
