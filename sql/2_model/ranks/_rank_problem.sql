-- A row is a reason why an input does not fit to those of the other ranks; is_left_out where its collectives are not matched.
--
-- Inputs of one kind are compared. One of another job has another world size than most, or was recorded while none of the
-- others was (10 s apart, as clocks of hosts differ by less, on one host a second; only where times count from 1970), or has
-- other Comms Ids than most inputs for every collective whose group and number (Seq) it shares with any: of two jobs of equally
-- many ranks neither is chosen. Of two inputs of one rank at the same time the later one is left out.
--
-- columns:
--   source_id     integer   the input
--   problem       varchar   'other_job' or 'rank_twice'
--   detail        varchar   what shows it, in words
--   is_left_out   boolean   whether its collectives are not matched

with
ranked as (
    select source_id, kind, name, rank, host, world_size, coalesce(origin_ns, 0) as origin_ns
    from source
    semi join _several_ranks using (source_id)
),
placed as (
    select
        ranked.*,
        origin_ns + extent.start_ns as start_ns,
        origin_ns + extent.end_ns as end_ns,
        extent.event_cnt,
        extent.length_ns,
        mode(world_size) over (partition by kind) as usual_size,
        count(*) over (partition by kind) as input_cnt,
        count(*) over (partition by kind, rank) as own_cnt
    from ranked
    join _extent as extent using (source_id)
),
-- as many as a profiler has cycles
usual as (
    select kind, mode(cnt) as cycle_cnt
    from (select kind, count(*) as cnt from placed group by kind, rank)
    group by kind
),
-- two inputs of one rank at the same time, or more than other ranks have
same_rank as (
    select
        later.source_id,
        later.rank,
        any_value(later.name) as name,
        any_value(earlier.name order by earlier.source_id) as other,
        bool_or(
            earlier.start_ns = later.start_ns and earlier.end_ns = later.end_ns
            and earlier.event_cnt = later.event_cnt and earlier.length_ns = later.length_ns
        ) as is_copy,
        bool_or(earlier.start_ns <= later.end_ns and later.start_ns <= earlier.end_ns) as is_beside
    from placed as later
    join placed as earlier
        on earlier.kind = later.kind
        and earlier.rank = later.rank
        and earlier.source_id < later.source_id
    join usual on usual.kind = later.kind
    where earlier.start_ns <= later.end_ns and later.start_ns <= earlier.end_ns
        or later.own_cnt > usual.cycle_cnt
    group by later.source_id, later.rank
),
-- how many inputs have a collective by its group and number, and how many by its Comms Id, too
numbered as (
    select
        placed.kind,
        collective.group_name,
        collective.group_ranks,
        collective.seq,
        collective.comms_id,
        collective.source_id,
        any_value(collective.group_size) as group_size
    from collective
    join placed using (source_id)
    where collective.comms_id is not null
        and collective.seq is not null
        and collective.group_name is not null
        and collective.group_ranks is not null
        and collective.operation not in ('send', 'recv')
    group by all
),
alike as (
    select kind, group_name, group_ranks, seq, comms_id, count(*) as alike_cnt
    from numbered
    group by all
),
together as (
    select kind, group_name, group_ranks, seq, count(distinct source_id) as cnt
    from numbered
    group by all
    having count(distinct source_id) > 1
),
apart as (
    select numbered.source_id
    from numbered
    join alike using (kind, group_name, group_ranks, seq, comms_id)
    join together using (kind, group_name, group_ranks, seq)
    group by numbered.source_id
    having not bool_or(2 * alike.alike_cnt > together.cnt or alike.alike_cnt >= numbered.group_size)
)
select
    source_id,
    'other_job' as problem,
    format('world size {}, most others {}', world_size, usual_size) as detail,
    true as is_left_out
from placed
where world_size <> usual_size
union all
select source_id, 'other_job', 'recorded while none of the others was', true
from placed
where input_cnt > 1
    and start_ns > 946684800000000000
    and not exists (
        from placed as other
        where other.kind = placed.kind
            and other.source_id <> placed.source_id
            and greatest(other.start_ns - placed.end_ns, placed.start_ns - other.end_ns)
            <= if(other.host = placed.host, 1000000000, 10000000000)
    )
union all
select source_id, 'other_job', 'other Comms Ids than the ranks with the same groups', true
from apart
union all
select
    source_id,
    'rank_twice',
    if(
        is_copy,
        format('rank {} again: {} is the same as {}', rank, name, other),
        format('rank {} is in {} and in {}', rank, other, name) || if(is_beside, ', which is left out', '')
    ),
    is_beside
from same_rank
