-- A row is one rank in one matched collective: when it arrived, and how long it waited for the last one.
--
-- A rank arrives when its kernel begins (gloo: when it begins to execute), on the clock that clock_offset aligns. What
-- is smaller than the error of the clocks is NULL: nobody knows it. Every rank counts that can have come first or last
-- within the error of its clock; ranks of one clock are placed among each other without error.
--
-- columns:
--   step              bigint    number of the step, NULL outside of steps
--   operation         varchar   'all_reduce', 'all_gather' …
--   name              varchar   its name, NULL if not recorded
--   group_name        varchar   the process group, NULL if not recorded
--   rank              integer   rank of the input
--   host              varchar   its machine, NULL if not recorded
--   arrival_ns        bigint    when it arrived, on the reference's clock; NULL where its clock is not known
--   late_ns           bigint    behind the median of the ranks, negative if ahead of it; NULL within the clocks' error
--   wait_ns           bigint    until the last one arrived; NULL within the clocks' error
--   is_last           boolean   true for the last one; NULL for ranks that may have been it where that is uncertain, and where skew_ns is
--   skew_ns           bigint    from the first arrival to the last; NULL within the clocks' error
--   error_ns          bigint    skew_ns, late_ns and wait_ns are accurate to within this much; where skew_ns is NULL, the most it can be
--   match_id          bigint    key of the collective, see collective_match
--   collective_id     bigint    key of the row of the table collective
--   source_id         integer   the input, see trace_info

with
placed as (
    select
        arrival.*,
        met.skew_ns,
        met.error_ns as skew_error_ns,
        met.last_source_id,
        arrival.arrival_ns - met.median_ns as behind_ns,
        if(met.clock_cnt = 1, 0, arrival.error_ns + met.median_error_ns) as behind_error_ns,
        met.last_ns - arrival.arrival_ns as before_ns,
        -- the last of its own clock, or of another one
        greatest(clock.last_ns, clock.others_last_from_ns - clock.error_ns) - arrival.arrival_ns as least_wait_ns,
        greatest(clock.last_ns, clock.others_last_to_ns + clock.error_ns) - arrival.arrival_ns as most_wait_ns,
        greatest(most_wait_ns - before_ns, before_ns - least_wait_ns) as wait_error_ns,
        arrival.source_id = clock.last_source_id
        and coalesce(clock.last_ns + clock.error_ns >= clock.others_last_from_ns, true) as may_be_last
    from _arrival as arrival
    join _met as met using (match_id)
    left join _met_clock as clock on clock.match_id = arrival.match_id and clock.clock_id = arrival.clock_id
),
known as (
    select
        *,
        if(skew_ns is not null and abs(behind_ns) > behind_error_ns, behind_ns, null) as late_ns,
        if(skew_ns is not null and (before_ns > wait_error_ns or most_wait_ns = 0), before_ns, null) as wait_ns
    from placed
)
select
    step,
    operation::varchar as operation,
    name,
    group_name,
    rank,
    host,
    arrival_ns,
    late_ns,
    wait_ns,
    case
        when skew_ns is null then null
        when source_id = last_source_id then true
        when not may_be_last then false
    end as is_last,
    skew_ns,
    greatest(
        skew_error_ns, if(late_ns is null, null, behind_error_ns), if(wait_ns is null, null, wait_error_ns)
    ) as error_ns,
    match_id,
    collective_id,
    source_id
from known
order by match_id, rank, source_id
