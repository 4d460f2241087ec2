-- A row is a matched collective of several ranks: who came first and last, and how long it took from then on.
--
-- skew_ns is NULL where a clock or the work of a member is not known, and where it is within the clocks' error.
-- transfer_ns is NULL where it would not be positive: then clocks are aligned badly.

with
-- medians are doubles, in which times since 1970 have no room
placed as (
    select *, min(arrival_ns) over (partition by match_id) as earliest_ns
    from _arrival
    where member_cnt > 1
),
met as (
    select
        match_id,
        count(*) as member_cnt,
        bool_and(arrival_ns is not null) as is_known,
        min(arrival_ns) as first_ns,
        max(arrival_ns) as last_ns,
        any_value(earliest_ns) + median(arrival_ns - earliest_ns)::bigint as median_ns,
        min(done_ns) as done_ns,
        arg_max(rank, arrival_ns) as last_rank,
        arg_max(source_id, arrival_ns) as last_source_id,
        arg_max(clock_id, arrival_ns) as last_clock_id,
        arg_max(error_ns, arrival_ns) as last_error_ns,
        if(
            arg_max(clock_id, arrival_ns) = arg_min(clock_id, arrival_ns), 0,
            arg_max(error_ns, arrival_ns) + arg_min(error_ns, arrival_ns)
        ) as error_ns
    from placed
    group by match_id
)
select
    * exclude (is_known),
    if(is_known and last_ns - first_ns > error_ns, last_ns - first_ns, null) as skew_ns,
    if(is_known and done_ns > last_ns, done_ns - last_ns, null) as transfer_ns
from met
