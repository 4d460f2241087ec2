-- A row is one range before whose work the GPU is idle for longer than the threshold long_gap_ns, because the CPU does something else.
--
-- Look at what the CPU did before the launch: reading input, Python, logging, checkpoints, evaluation, allocating. Name it with ranges (lorabench.span), or record Python's stacks.
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
where gap.rule = 'long_idle_gap'
group by gap.source_id, range_path.path
