-- A row is a matched collective of a step as a rank takes part in it: what is replayed of a rank besides its own time.
--
-- columns:
--   source_id       integer   the rank's input
--   step            bigint    number of the step
--   match_id        bigint    the same for all ranks that take part
--   collective_id   bigint    the row of collective
--   start_ns        bigint    begin of its kernels
--   end_ns          bigint    end of them
--   wait_ns         bigint    how much of that the rank waits for others
--   ready_ns        bigint    when the rank was ready for it: at the latest when it began
--   operation       varchar   the operation
--   bytes           bigint    bytes in, else out; -1 if not recorded
--   group_name      varchar   the group, '' if not recorded
--   group_size      bigint    ranks in the group

select
    wait.source_id,
    wait.step,
    matched.match_id,
    wait.collective_id,
    wait.start_ns,
    wait.end_ns,
    wait.wait_ns,
    coalesce(wait.ready_ns, wait.start_ns) as ready_ns,
    collective.operation::varchar as operation,
    coalesce(collective.in_bytes, collective.out_bytes, -1) as bytes,
    coalesce(collective.group_name, '') as group_name,
    collective.group_size
from _rank_wait as wait
join matched_collective as matched on matched.collective_id = wait.collective_id
join collective on collective.collective_id = wait.collective_id
where wait.step is not null and matched.match_id is not null
