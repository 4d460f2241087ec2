-- A row is an input with CUDA graphs whose nodes are not all recorded: the GPU seems idle while they run, or nobody knows what runs.
--
-- Record every node: nsys profile --cuda-graph-trace=node; for torch.profiler a newer driver and CUPTI, or one run without graphs. Until then it is not known what of this time is idle, or which kernel takes it.
--
-- Without torch: Record every node: nsys profile --cuda-graph-trace=node, or one run without graphs. Until then it is not known what of this time is idle, or which kernel takes it.
--
-- Only with: select 1 from _judged_gap where rule = 'unrecorded_graph'
-- union all select 1 from gpu_op where kind = 'graph'

with
-- what made the recording is known
recorder as (
    select
        source_id,
        if(kind_called(kind) = 'torch.profiler', 'Record every node: a newer driver and CUPTI, or one run without graphs; nsys records them with '
            || '--cuda-graph-trace=node. Until then it is not known what of this time is idle, or which kernel takes it.', null) as advice
    from source
)
select
    gap.source_id,
    'CUDA graphs' as place,
    null::double as saving_ns,
    count(*) as occurrence_cnt,
    format('{}, {} together, between the nodes of graphs or beside graphs with such gaps: kernels seem to be missing',
        if(count(*) = 1, 'a gap', count(*) || ' gaps'), said_ns(sum(gap.saving_ns))) as evidence,
    any_value(recorder.advice) as advice
from _judged_gap as gap
join _steady_time as steady using (source_id)
join recorder using (source_id)
where gap.rule = 'unrecorded_graph'
group by gap.source_id
having sum(gap.saving_ns)
    >= (select value from threshold where name = 'notable_frac') * any_value(steady.end_ns - steady.start_ns)
union all
select
    op.source_id,
    'CUDA graphs',
    null,
    count(*),
    format('{} recorded as a whole, {} together, {} on average: their kernels are not in the file',
        if(count(*) = 1, 'a launch of a graph', count(*) || ' launches of graphs'), said_ns(sum(op.end_ns - op.start_ns)),
        said_ns(avg(op.end_ns - op.start_ns))),
    any_value(recorder.advice)
from gpu_op as op
join _steady_time as steady using (source_id)
join recorder using (source_id)
where op.kind = 'graph' and op.start_ns >= steady.start_ns and op.start_ns < steady.end_ns
group by op.source_id
having sum(op.end_ns - op.start_ns)
    >= (select value from threshold where name = 'notable_frac') * any_value(steady.end_ns - steady.start_ns)
