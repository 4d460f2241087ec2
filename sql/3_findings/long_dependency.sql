-- A row is one range whose work was launched and then waited for longer than the threshold long_gap_ns while the GPU was idle.
--
-- The CPU was in time: the work waited for an event of another stream, a copy, another rank, or the driver. Look at what ended just before it, on other streams and on other ranks.
select
    gap.source_id,
    range_path.path as place,
    sum(gap.saving_ns) as saving_ns,
    count(*) as occurrence_cnt,
    format('{} gaps, the longest {}, ended by {}', count(*), said_ns(max(gap.idle_ns)),
        arg_max(short.short_name, gap.idle_ns)) as evidence
from _blamed_gap as gap
join gpu_op as op using (gpu_op_id)
join _short_name as short on short.source_id = op.source_id and short.name_id = op.name_id
left join range_path using (path_id)
where gap.rule = 'long_dependency'
group by gap.source_id, range_path.path
