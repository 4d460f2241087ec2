-- A row is one step of one rank, how long it takes when the ranks are replayed, and how long if they were alike.
--
-- Filled by analyze/ranks/alike.py when it is asked for, without rows for other programs; see without_stragglers.
--
-- columns:
--   source_id             integer   the input
--   step                  bigint    number of the step
--   measured_ns           bigint    the step, from the end of the one before
--   replayed_ns           bigint    the mean step of the ranks when they are replayed as they were
--   ideal_ns              bigint    the same if all ranks were alike, NULL where it cannot be known
--   without_ns            bigint    the same if stragglers took as long as the others, NULL likewise
--   alone_ns              bigint    the same if all but this one were, NULL likewise
--   without_transfer_ns   bigint    the same if collectives took no time once all ranks had come, NULL likewise
--   reason                varchar   why it cannot be known, NULL where it can

select
    null::integer as source_id,
    null::bigint as step,
    null::bigint as measured_ns,
    null::bigint as replayed_ns,
    null::bigint as ideal_ns,
    null::bigint as without_ns,
    null::bigint as alone_ns,
    null::bigint as without_transfer_ns,
    null::varchar as reason
where false
