-- A row is an input a tenth of whose tokens or more are padding, which is computed like any other. The limit is padding's share of the kernels' time on the critical path, of those kernels that no other rule has; without a GPU its share of the operators' time.
--
-- Pad to the longest of each batch and not to a fixed length (padding="longest" in the collator), batch those of similar length (transformers: train_sampling_strategy="group_by_length", before 5.0 group_by_length=True), or pack several sequences into one (packing=True in TRL's SFT, collect --packing).
--
-- Only with: from _padding

with
padded as materialized (
    select * from _padding where padding_frac >= (select value from threshold where name = 'padding_frac')
),
computing as (
    select kernel.source_id, sum(kernel.critical_ns) as ns
    from _blamed_kernel as kernel
    semi join padded using (source_id)
    where kernel.rule is null
    group by kernel.source_id
    union all
    select busy.source_id, sum(least(busy.end_ns, steady.end_ns) - greatest(busy.start_ns, steady.start_ns)) / count(distinct busy.process)
    from merged('_operator_time') as busy
    semi join padded using (source_id)
    join _steady_time as steady using (source_id)
    where busy.end_ns > steady.start_ns and busy.start_ns < steady.end_ns
    group by busy.source_id
)
select
    padded.source_id,
    'all batches' as place,
    padded.padding_frac * computing.ns as saving_ns,
    1 as occurrence_cnt,
    format('{:.0f} % of {:,} tokens a step are padding', 100 * padded.padding_frac, padded.token_cnt)
    || if(
        padded.longest_frac < 0.9 * padded.padding_frac,
        format('; it would be {:.0f} % if each batch were padded to its longest', 100 * padded.longest_frac),
        ''
    ) as evidence,
    -- almost nothing is left to gain by what the first sentence says
    if(
        padded.longest_frac >= 0.9 * padded.padding_frac,
        'Each batch is padded to its longest already: batch sequences of similar length (transformers: '
        || 'train_sampling_strategy="group_by_length", before 5.0 group_by_length=True), or pack several into one (packing=True in '
        || 'TRL''s SFT, collect --packing).',
        null
    ) as advice
from padded
join computing using (source_id)
