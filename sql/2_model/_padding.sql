-- A row is an input whose steps' tokens are known, and how many of them are padding.
--
-- columns:
--   source_id      integer   the input
--   token_cnt      bigint    tokens computed in a step, the mean of its steps
--   padding_frac   double    the share that is padding

select
    source_id,
    avg(token_cnt)::bigint as token_cnt,
    1 - sum(real_token_cnt) / nullif(sum(token_cnt), 0) as padding_frac
from run_step
where real_token_cnt is not null
group by source_id
