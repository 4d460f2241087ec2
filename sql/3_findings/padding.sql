-- A row is an input a tenth of whose tokens or more are padding, which the GPU computes like any other.
--
-- Pack several sequences into one (collect --packing; packing=True in TRL), batch those of similar length (group_by_length=True), or pad to the longest of each batch and not to a fixed length. The limit is padding's share of the kernels' time on the critical path, of those kernels that no other rule has.

select
    padding.source_id,
    null::varchar as place,
    padding.padding_frac * sum(kernel.critical_ns) as saving_ns,
    1 as occurrence_cnt,
    format('{:.0f} % of {:,} tokens a step are padding', 100 * padding.padding_frac, padding.token_cnt) as evidence
from _padding as padding
join _blamed_kernel as kernel on kernel.source_id = padding.source_id
where padding.padding_frac >= (select value from threshold where name = 'padding_frac') and kernel.rule is null
group by padding.source_id, padding.padding_frac, padding.token_cnt
