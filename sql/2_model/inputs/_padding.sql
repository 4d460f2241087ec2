-- A row is an input whose steps' tokens are known, and how many of them are padding.
--
-- Of what lorabench trains steps.csv says it, of a script the attention masks of its batches (in the timing pass, the mean).
--
-- columns:
--   source_id      integer   the input
--   token_cnt      bigint    tokens computed in a step, the mean of its steps
--   padding_frac   double    the share that is padding
--   longest_frac   double    the share that would be padding if each batch was padded to its longest sequence; NULL where nothing says

with masks as (
    select
        source_id,
        try_cast(said['tokens in the masks of a step'] as bigint) as token_cnt,
        try_cast(said['tokens of a step without padding'] as bigint) as real_cnt,
        try_cast(said['tokens of a step padded to the longest sequence of each batch'] as bigint) as longest_cnt
    from _run_facts
)
select
    source_id,
    avg(token_cnt)::bigint as token_cnt,
    1 - sum(real_token_cnt) / nullif(sum(token_cnt), 0) as padding_frac,
    null::double as longest_frac
from run_step
where real_token_cnt is not null
group by source_id
union all
select source_id, token_cnt, 1 - real_cnt / nullif(token_cnt, 0), 1 - real_cnt / nullif(longest_cnt, 0)
from masks
where token_cnt >= real_cnt
    and real_cnt is not null
    and source_id not in (select source_id from run_step where real_token_cnt is not null)
