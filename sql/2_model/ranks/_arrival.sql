-- A row is a rank in a matched collective: when it arrived there and when it was done, on the clock that all share.
--
-- The first piece of a clock holds before it, too.
--
-- columns:
--   match_id            bigint    the same for all ranks in one collective
--   collective_id       bigint    the row of collective
--   matched_by          varchar   'comms_id', 'seq' or 'place', see matched_collective
--   step                bigint    number of the step, NULL outside of steps
--   source_id           integer   the input
--   kind                varchar   its kind, see source
--   rank                integer   rank of the input
--   host                varchar   its machine, NULL if not recorded
--   operation           varchar   what the collective does: 'all_reduce', 'all_gather' …
--   name                varchar   its name, NULL if not recorded
--   group_name          varchar   the process group, NULL if not recorded
--   group_description   varchar   what the group is for, NULL if not recorded
--   dtype               varchar   type of the elements, NULL if not recorded
--   in_bytes            bigint    bytes sent, NULL if not recorded
--   out_bytes           bigint    bytes received, NULL if not recorded
--   work_start_ns       bigint    begin of its work, on the clock of the input
--   work_end_ns         bigint    end of its work, likewise
--   arrival_ns          bigint    begin of its work in the reference's time since its origin (of Unix, where files say it), NULL
--         where the clock is not known
--   done_ns             bigint    end of its work in that time, NULL likewise
--   clock_id            bigint    the clock, see the table clock, NULL likewise
--   error_ns            bigint    the times are right within so much, NULL likewise
--   member_cnt          bigint    ranks in the collective

with
since as (
    select *, if(piece_id = min(piece_id) over (partition by source_id), -9223372036854775807, from_ns) as since_ns
    from clock
)
select
    matched.match_id,
    matched.collective_id,
    matched.matched_by,
    matched.step,
    collective.source_id,
    source.kind,
    source.rank,
    source.host,
    collective.operation,
    collective.name,
    collective.group_name,
    collective.group_description,
    collective.dtype,
    collective.in_bytes,
    collective.out_bytes,
    collective.work_start_ns,
    collective.work_end_ns,
    coalesce(source.origin_ns, 0) + collective.work_start_ns - since.offset_ns as arrival_ns,
    coalesce(source.origin_ns, 0) + collective.work_end_ns - since.offset_ns as done_ns,
    since.clock_id,
    since.error_ns,
    count(*) over (partition by matched.match_id) as member_cnt
from matched_collective as matched
join collective using (collective_id)
join source using (source_id)
asof left join since
    on since.source_id = collective.source_id and since.since_ns <= collective.work_start_ns
where matched.match_id is not null
