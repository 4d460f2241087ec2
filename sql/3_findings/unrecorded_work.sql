-- A row is an input in which the CPU waits for a GPU that seems to be idle.
--
-- What it waits for was launched before the recording began, or by another process on this GPU: start recording between two synchronizations, record all processes. Until then it is not known what of this time is idle.
--
-- Only with: from _judged_gap where rule = 'unrecorded_work'
with
-- kernels of graphs are missing besides, as said by unrecorded_graph
hollow as (
    select gap.source_id
    from _judged_gap as gap
    join _steady_time as steady using (source_id)
    where gap.rule = 'unrecorded_graph'
    group by gap.source_id
    having sum(gap.saving_ns)
        >= (select value from threshold where name = 'notable_frac') * any_value(steady.end_ns - steady.start_ns)
)
select
    gap.source_id,
    if(gap.source_id in (from hollow), 'of CUDA graphs, or before the recording', 'before the recording, or of others') as place,
    null::double as saving_ns,
    count(*) as occurrence_cnt,
    format('{} of {}{} in which the CPU waits for the GPU ({}) and nothing is recorded there',
        if(count(*) = 1, 'a gap', format('{:,} gaps', count(*))), said_ns(sum(gap.saving_ns)),
        if(count(*) = 1, '', ' together'), arg_max(name.text, gap.idle_ns)) as evidence,
    if(
        gap.source_id in (from hollow),
        'Kernels of CUDA graphs are missing from this file, and most likely it waits for these: record every node (see unrecorded '
        || 'graph). Otherwise it waits for what was launched before the recording began, or by another process on this GPU.',
        null
    ) as advice
from _judged_gap as gap
join _steady_time as steady using (source_id)
left join name on name.name_id = gap.waited_name_id
where gap.rule = 'unrecorded_work'
group by gap.source_id
having sum(gap.saving_ns)
    >= (select value from threshold where name = 'notable_frac') * any_value(steady.end_ns - steady.start_ns)
