-- A row is a rank that others waited for, in the steps of which it was the straggler, with what it spent more on.
--
-- Of compute: uneven batches or lengths on this rank, or a slower GPU. Of idle: its CPU is late, in the range that is named (the data, a file system, a busy host). Of copies or exposed communication: its links. Compare it with another rank: lorabench compare.

with
late as (
    select *, if(found_by = 'arrival', coalesce(late_ns, 0), lag_ns) as behind_ns
    from straggler
    where is_straggler
),
by_cause as (
    select
        source_id,
        cause,
        mode(cause_place) as cause_place,
        sum(cause_ns) as cause_ns,
        row_number() over (partition by source_id order by sum(cause_ns) desc, cause) as place
    from late
    where cause is not null
    group by source_id, cause
)
select
    late.source_id,
    format('rank {}', any_value(late.rank)) as place,
    greatest(sum(behind_ns), 0)::bigint as saving_ns,
    count(*) as occurrence_cnt,
    format('last in {} steps, others waited {} for it', count(*), said_ns(sum(kept_waiting_ns)))
    || coalesce(
        format('; cause: {}, {} more than the others', any_value(by_cause.cause), said_ns(any_value(by_cause.cause_ns)))
        || coalesce(', in ' || any_value(by_cause.cause_place), ''),
        ''
    ) as evidence
from late
left join by_cause on by_cause.source_id = late.source_id and by_cause.place = 1
group by late.source_id
