-- A row is a rank that others waited for, in the steps of which it was the straggler, with what it spent more on.
--
-- Of compute: uneven batches or lengths on this rank, or a slower GPU. Of idle: its CPU is late, in the range that is named (the data, a file system, a busy host). Of copies or exposed communication: its links. Compare it with another rank: lorabench compare.

with
late as (
    select *, if(found_by = 'arrival', coalesce(late_ns, 0), lag_ns) as behind_ns
    from straggler
    where is_straggler
)
select
    late.source_id,
    format('rank {}', any_value(late.rank)) as place,
    greatest(sum(behind_ns), 0)::bigint as saving_ns,
    count(*) as occurrence_cnt,
    format('last in {} steps, others waited {} for it', count(*), said_ns(sum(kept_waiting_ns)))
    || coalesce(
        format('; cause: {}, {} more than the others', any_value(why.cause), said_ns(any_value(why.cause_ns)))
        || coalesce(
            if(any_value(why.place_ns) < any_value(why.cause_ns), format(', {} of it', said_ns(any_value(why.place_ns))), ',')
            || format(' in {}', any_value(why.cause_place)),
            ''
        ),
        ''
    ) as evidence
from late
left join _straggler_cause as why on why.source_id = late.source_id
group by late.source_id
