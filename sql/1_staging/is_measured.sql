-- Whether a start and an end are what a profiler can have measured: in this order, within 2^61 ns (73 years) of the clock's
-- zero, and not more than 2^53 (104 days) apart. Beyond that sums would overflow.

coalesce(
    end_ns >= start_ns
    and start_ns between -2305843009213693952 and 2305843009213693952
    and end_ns <= least(start_ns, 2305843009213693952) + 9007199254740992,
    false
)
