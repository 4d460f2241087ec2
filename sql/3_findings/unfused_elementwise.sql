-- A row is one range with three or more kernels in a row on a stream that could be a single one, each of which reads and writes its tensors again.
--
-- Fuse them: torch.compile, or a fused implementation (Liger kernels: norms, rotary embedding, SwiGLU, loss; fused bias and activation). One pass over memory remains, as long as the longest kernel of the row: it is not counted here.
--
-- Without torch: Fuse them: one kernel for all (XLA, a custom kernel, a library call that includes bias and activation). One pass over memory remains, as long as the longest kernel of the row: it is not counted here.
--
-- Only with: from _blamed_kernel where rule = 'unfused_elementwise'
select
    kernel.source_id,
    coalesce(range_path.path, if(kernel.is_launched, null, '(launch not recorded)')) as place,
    sum(kernel.critical_ns) as saving_ns,
    count(distinct kernel.run_id) as occurrence_cnt,
    format('{:,} kernels in {} of elementwise work, casts and reductions, not counting the longest of each: {} of the critical path, the most in {}',
        count(*), if(count(distinct kernel.run_id) = 1, 'a row', format('{:,} rows', count(distinct kernel.run_id))), said_ns(sum(kernel.critical_ns)),
        arg_max(short.short_name, kernel.critical_ns)) as evidence
from _blamed_kernel as kernel
join _short_name as short using (source_id, name_id)
left join range_path using (path_id)
where kernel.rule = 'unfused_elementwise'
group by all
