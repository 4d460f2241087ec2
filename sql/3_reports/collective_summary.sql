-- A row is the collectives of one operation, group, type and size: how many, how long, how fast.
--
-- Sizes are put together from each power of two up to the next. Bandwidths are of the matched collectives whose transfer is
-- known, see collective_match; busbw_bytes_s compares with what nccl-tests measures on the same links. wait_ns is what ranks
-- waited in them for the last one, where the clocks say it. In the median of skews those count, too, that are smaller than the
-- clocks' error: as anything from 0 to the most that they can be. It lies between the median of the least and that of the
-- most that each can be, and is NULL where the former is 0.
--
-- gloo runs reduce-scatters as all-reduces, and they are listed as what it ran; its bytes are known where shapes were recorded.
--
-- columns:
--   operation           varchar   'all_reduce', 'all_gather' …
--   group_name          varchar   the process group, NULL if not recorded
--   group_description   varchar   what the group is for, NULL if not recorded
--   member_cnt          bigint    ranks of the group, NULL for unmatched rows
--   dtype               varchar   type of the elements, NULL if not recorded
--   least_bytes         bigint    the power of two at which the sizes begin; 0 for none, NULL if not recorded
--   collective_cnt      bigint    matched collectives
--   unmatched_cnt       bigint    rows of single ranks that belong to none
--   reason              varchar   why, the most frequent reason; NULL without unmatched rows
--   bytes               bigint    bytes of a rank in all of them
--   work_ns             bigint    time of their kernels, mean of the ranks, waiting included
--   wait_ns             bigint    summed time that ranks waited for the last one, where it is known; NULL where it is not known
--   known_skew_cnt      bigint    collectives whose skew_ns is known: larger than the clocks' error
--   median_skew_ns      double    median skew; NULL within the clocks' error
--   skew_error_ns       double    median_skew_ns is accurate to within this much; where it is NULL, the most it can be
--   median_transfer_ns  double    median transfer, NULL if not known
--   algbw_bytes_s       double    bytes / transfer of those whose transfer is known
--   busbw_bytes_s       double    algbw_bytes_s times the factor of nccl-tests

with
waited as (
    select match_id, sum(wait_ns) as wait_ns
    from collective_skew
    group by match_id
),
sized as (
    select
        matched.*,
        waited.wait_ns,
        coalesce(skew_ns - error_ns, error_ns * 0) as least_skew_ns,
        coalesce(skew_ns, 0) + error_ns as most_skew_ns,
        case when bytes = 0 then 0 when bytes > 0 then (2 ** floor(log2(bytes)))::bigint end as least_bytes,
        match_id is not null as is_matched
    from collective_match as matched
    left join waited using (match_id)
)
select
    operation,
    group_name,
    any_value(group_description) as group_description,
    if(is_matched, any_value(member_cnt), null) as member_cnt,
    dtype,
    least_bytes,
    count(*) filter (is_matched) as collective_cnt,
    count(*) filter (not is_matched) as unmatched_cnt,
    mode(reason) as reason,
    sum(bytes)::bigint as bytes,
    sum(work_ns)::bigint as work_ns,
    sum(wait_ns)::bigint as wait_ns,
    count(skew_ns) as known_skew_cnt,
    if(median(least_skew_ns) > 0, (median(least_skew_ns) + median(most_skew_ns)) / 2, null) as median_skew_ns,
    median(most_skew_ns) - coalesce(median_skew_ns, 0) as skew_error_ns,
    median(transfer_ns) as median_transfer_ns,
    sum(bytes) filter (transfer_ns is not null) / sum(transfer_ns) filter (bytes is not null) * 1e9 as algbw_bytes_s,
    sum(busbw_bytes_s * transfer_ns) / sum(transfer_ns) filter (bytes is not null) as busbw_bytes_s
from sized
group by operation, group_name, is_matched, if(is_matched, member_cnt, null), dtype, least_bytes
order by sum(work_ns) desc nulls last, operation, group_name, dtype, least_bytes, is_matched desc
