-- A row is a matched collective of several ranks: who came first and last, and how long it took from then on.
--
-- Every rank counts that can have come first or last within the error of its clock, not only those that seem to: skew_ns is
-- right within error_ns. It is NULL where a clock or the work of a member is not known, and where it is within that error:
-- then error_ns is the most that it can be. Who came last is known where no rank of another clock can have come later.
-- Where nobody can end before all have begun, a collective takes as long as on the clock on which it is shortest, from the
-- last arrival to the first end: no clocks are compared. Of others transfer_ns is NULL within the clocks' error.
--
-- columns:
--   match_id         bigint    the collective
--   clock_cnt        bigint    clocks of its members
--   last_ns          bigint    the last arrival, as the clocks are aligned
--   median_ns        bigint    the median arrival
--   median_error_ns  bigint    that is right within so much
--   last_rank        integer   the last to arrive, NULL where that is not known
--   last_source_id   integer   its input
--   error_ns         bigint    error of skew_ns; where that is NULL the most that it can be
--   skew_ns          bigint    from the first arrival to the last
--   transfer_ns      bigint    from the last arrival to the first end, NULL where it is not known or would not be positive

with
ranged as (
    select
        match_id,
        count(*) as clock_cnt,
        sum(arrived_cnt) = sum(member_cnt) as is_known,
        min(first_ns) as first_ns,
        max(last_ns) as last_ns,
        max(last_rank) filter (
            coalesce(last_ns - error_ns > others_last_to_ns, true)
        ) as last_rank,
        max(last_source_id) filter (
            coalesce(last_ns - error_ns > others_last_to_ns, true)
        ) as last_source_id,
        -- of two clocks at a time: ranks of one are placed among each other without error
        max(greatest(last_ns - first_ns, last_ns - error_ns - others_first_to_ns)) as least_skew_ns,
        max(greatest(last_ns - first_ns, last_ns + error_ns - others_first_from_ns)) as most_skew_ns,
        min(done_ns - last_ns) as shortest_ns,
        min(least(done_ns - last_ns, others_done_from_ns - last_ns - error_ns)) as least_transfer_ns,
        min(least(done_ns - last_ns, others_done_to_ns - last_ns + error_ns)) as most_transfer_ns,
        min(done_ns) - max(last_ns) as aligned_ns,
        any_value(operation) in ('all_reduce', 'all_gather', 'reduce_scatter', 'all_to_all', 'barrier') as is_meeting
    from _met_clock
    group by match_id
),
-- medians are doubles, in which times since 1970 have no room
middle as (
    select
        match_id,
        median(arrival_ns - earliest_ns)::bigint as middle_ns,
        median(arrival_ns - error_ns - earliest_ns)::bigint as middle_from_ns,
        median(arrival_ns + error_ns - earliest_ns)::bigint as middle_to_ns
    from (select *, min(arrival_ns) over (partition by match_id) as earliest_ns from _arrival where member_cnt > 1)
    group by match_id
),
judged as (
    select
        ranged.*,
        first_ns + middle_ns as median_ns,
        if(clock_cnt = 1, 0, greatest(middle_ns - middle_from_ns, middle_to_ns - middle_ns)) as median_error_ns,
        last_ns - first_ns as apart_ns,
        greatest(most_skew_ns - apart_ns, apart_ns - least_skew_ns) as skew_error_ns,
        is_known and apart_ns > skew_error_ns as is_apart,
        if(is_meeting, shortest_ns, aligned_ns) as took_ns,
        if(is_meeting, 0, greatest(most_transfer_ns - aligned_ns, aligned_ns - least_transfer_ns)) as took_error_ns
    from ranged
    join middle using (match_id)
)
select
    match_id,
    clock_cnt,
    last_ns,
    median_ns,
    median_error_ns,
    if(is_apart, last_rank, null) as last_rank,
    if(is_apart, last_source_id, null) as last_source_id,
    if(is_apart, skew_error_ns, if(is_known, most_skew_ns, null)) as error_ns,
    if(is_apart, apart_ns, null) as skew_ns,
    if(is_known and took_ns > took_error_ns, took_ns, null) as transfer_ns
from judged
