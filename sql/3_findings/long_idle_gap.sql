-- A row is one cause and range that ended idle gaps longer than the threshold long_gap_ns, which no other rule explains.
--
-- host: the CPU was late, so look at what it did before the launch (Python, logging, checkpoints, evaluation). dependency: the work was launched and waited for another stream, an event or a copy.
select
    gap.source_id,
    concat(gap.cause, ': ', coalesce(range_path.path, '(no range)')) as place,
    sum(gap.saving_ns) as saving_ns,
    count(*) as occurrence_cnt,
    format('{} gaps, the longest {:.3f} ms, ended by {}', count(*), max(gap.idle_ns) / 1e6,
        arg_max(short.short_name, gap.idle_ns)) as evidence
from _blamed_gap as gap
join gpu_op as op using (gpu_op_id)
join _short_name as short on short.name_id = op.name_id
left join range_path using (path_id)
where gap.rule = 'long_idle_gap'
group by gap.source_id, gap.cause, range_path.path
