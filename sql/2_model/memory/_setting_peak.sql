-- A row is what one range holds at the peak that settings of a training are chosen by, and what of a training it is.
--
-- It is the peak of the first input, on the device that counts: a GPU, if there is one, with the highest peak.
--
-- columns:
--   peak_bytes        bigint    the peak
--   category          varchar   what it is for, as memory_peak has it
--   live_bytes        bigint    what the range holds of it
--   largest_bytes     bigint    its largest allocation
--   layer             varchar   the decoder layer, with the slashes around it, of what grows with a batch; else NULL
--   is_recomputed     boolean   whether it grows with a batch and is computed again for the backward
--   is_of_loss        boolean   whether it grows with a batch and is of the loss

with
chosen as (
    select *
    from memory_peak
    where source_id = (select min(source_id) from memory_peak)
    qualify device = first(device) over (order by device = 'cpu', peak_bytes desc)
),
judged as (
    select *, category in ('activation', 'temporary', 'autograd_detail') as is_growing
    from chosen
)
select
    peak_bytes,
    category,
    live_bytes,
    largest_bytes,
    if(is_growing, nullif(regexp_extract(path, '(^|/)(layers|h|layer)\.[0-9]+(/|$)'), ''), null) as layer,
    is_growing and coalesce(regexp_matches(path, '(^|/)recompute(/|$)'), false) as is_recomputed,
    is_growing and coalesce(regexp_matches(path, '(^|/)(loss|lm_head)(/|$)'), false) as is_of_loss
from judged
