-- A row is an input whose last step goes on long after the last GPU work: until it ends the device is idle.
--
-- No work ends that gap, so it is in no window; of many steps it is next to nothing, of one it may be most of it. Steps that
-- ranges show have such an end, others end with their work. Where work is missing from the recording nobody knows.
--
-- columns:
--   source_id   integer   the input
--   tail_ns     bigint    from the end of the last GPU work to that of the last step; more than a tenth of the window and itself
--   making_ns   bigint    of it what is compiled, loaded or captured as a CUDA graph

with
tail as (
    select steady.source_id, any_value(steady.end_ns) as start_ns, max(step.end_ns) as end_ns
    from _steady_time as steady
    join _step as step using (source_id)
    where step.found_by not in ('optimizer', 'period')
        and not steady.has_rest
        and steady.source_id in (select source_id from gpu_op)
        and steady.source_id not in (select source_id from _work_missing)
        and steady.source_id not in (select source_id from _clock_shift)
    group by steady.source_id
    having 9 * (max(step.end_ns) - any_value(steady.end_ns)) > any_value(steady.end_ns - steady.start_ns)
)
select
    tail.source_id,
    tail.end_ns - tail.start_ns as tail_ns,
    coalesce(sum(greatest(0, least(making.end_ns, tail.end_ns) - greatest(making.start_ns, tail.start_ns))), 0)::bigint
        as making_ns
from tail
left join _compiling as making
    on making.source_id = tail.source_id and making.end_ns > tail.start_ns and making.start_ns < tail.end_ns
group by tail.source_id, tail.start_ns, tail.end_ns
