-- A row is one rank in one matched collective: when it arrived, and how long it waited for the last one.
--
-- A rank arrives when its kernel begins (gloo: when it begins to execute), on the clock that clock_offset aligns. What
-- is smaller than the error of the clocks is NULL: nobody knows it.
--
-- columns:
--   step              bigint    number of the step, NULL outside of steps
--   operation         varchar   'all_reduce', 'all_gather' …
--   name              varchar   its name, NULL if not recorded
--   group_name        varchar   the process group, NULL if not recorded
--   rank              integer   rank of the input
--   host              varchar   its machine, NULL if not recorded
--   arrival_ns        bigint    when it arrived, on the reference's clock; NULL where its clock is not known
--   late_ns           bigint    behind the median of the ranks, below 0 before it; NULL within the clocks' error
--   wait_ns           bigint    until the last one arrived; NULL within the clocks' error
--   is_last           boolean   true for the last one; NULL where skew_ns is
--   skew_ns           bigint    from the first arrival to the last; NULL within the clocks' error
--   error_ns          bigint    error of that: of the clocks of the first and the last
--   match_id          bigint    key of the collective, see collective_match
--   collective_id     bigint    key of the row of the table collective
--   source_id         integer   the input, see trace_info

select
    arrival.step,
    arrival.operation::varchar as operation,
    arrival.name,
    arrival.group_name,
    arrival.rank,
    arrival.host,
    arrival.arrival_ns,
    if(
        abs(arrival.arrival_ns - met.median_ns) > arrival.error_ns and met.skew_ns is not null,
        arrival.arrival_ns - met.median_ns, null
    ) as late_ns,
    case
        when met.skew_ns is null then null
        when arrival.source_id = met.last_source_id then 0
        when met.last_ns - arrival.arrival_ns
            > if(arrival.clock_id = met.last_clock_id, 0, arrival.error_ns + met.last_error_ns)
            then met.last_ns - arrival.arrival_ns
    end as wait_ns,
    if(met.skew_ns is null, null, arrival.source_id = met.last_source_id) as is_last,
    met.skew_ns,
    met.error_ns,
    arrival.match_id,
    arrival.collective_id,
    arrival.source_id
from _arrival as arrival
join _met as met using (match_id)
order by arrival.match_id, arrival.rank, arrival.source_id
