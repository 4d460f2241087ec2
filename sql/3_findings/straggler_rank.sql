-- A row is a rank that others waited for, in the steps of which it was the straggler.
--
-- Look at rank_summary: more work on this rank (compute_frac, uneven batches or lengths), a slower GPU or host, or more time idle (data loading).

select
    source_id,
    format('rank {}', any_value(rank)) as place,
    max(lag_total_ns)::bigint as saving_ns,
    count(*) as occurrence_cnt,
    format('last in {} steps, others waited {} for it', count(*), said_ns(sum(kept_waiting_ns))) as evidence
from (select *, sum(lag_ns) over (partition by source_id) as lag_total_ns from straggler where is_straggler)
group by source_id
