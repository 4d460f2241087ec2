-- A row is a rank in a matched collective: when it arrived there and when it was done, on the clock that all share.
--
-- arrival_ns and done_ns are in the reference's time since its origin (of Unix, where files say it); NULL where the clock
-- is not known. The first piece of a clock holds before it, too.

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
