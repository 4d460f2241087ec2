-- A row is a clock in a matched collective of several ranks: the first and the last of its ranks, and what other clocks say.
--
-- Times are as in _arrival. Ranks of one clock are placed among each other without error, all of a clock together within its own.
--
--     clock a       1---2           2 came last on clock a: of all only if neither 3 nor 4 can have come later,
--     clock b    (--3-4--)          which lie where they are +- error_ns
--
-- columns:
--   match_id              bigint    the collective
--   clock_id              bigint    the clock, NULL where it is not known
--   operation             varchar   'all_reduce', 'all_gather' …
--   member_cnt            bigint    ranks on this clock
--   arrived_cnt           bigint    those whose arrival is known
--   first_ns              bigint    first arrival on this clock
--   last_ns               bigint    last arrival
--   last_rank             integer   the last to arrive
--   last_source_id        integer   its input
--   done_ns               bigint    first end
--   error_ns              bigint    all of these are right within so much
--   others_first_from_ns  bigint    the first arrival on other clocks, at the earliest; this and the rest NULL without others
--   others_first_to_ns    bigint    at the latest
--   others_last_from_ns   bigint    the last arrival on other clocks, at the earliest
--   others_last_to_ns     bigint    at the latest
--   others_done_from_ns   bigint    the first end on other clocks, at the earliest
--   others_done_to_ns     bigint    at the latest

with by_clock as (
    select
        match_id,
        clock_id,
        any_value(operation)::varchar as operation,
        count(*) as member_cnt,
        count(arrival_ns) as arrived_cnt,
        min(arrival_ns) as first_ns,
        max(arrival_ns) as last_ns,
        arg_max(rank, (arrival_ns, -source_id)) as last_rank,
        arg_max(source_id, (arrival_ns, -source_id)) as last_source_id,
        min(done_ns) as done_ns,
        max(error_ns) as error_ns
    from _arrival
    where member_cnt > 1
    group by match_id, clock_id
)
select
    *,
    min(first_ns - error_ns) over others as others_first_from_ns,
    min(first_ns + error_ns) over others as others_first_to_ns,
    max(last_ns - error_ns) over others as others_last_from_ns,
    max(last_ns + error_ns) over others as others_last_to_ns,
    min(done_ns - error_ns) over others as others_done_from_ns,
    min(done_ns + error_ns) over others as others_done_to_ns
from by_clock
window others as (
    partition by match_id rows between unbounded preceding and unbounded following exclude current row
)
