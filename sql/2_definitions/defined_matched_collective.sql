-- A row is what became of a row of collective when the rows of all ranks were matched: what the table matched_collective holds.
--
-- Rows belong to one collective that have the same Comms Id; else the same group and number in it (Seq); else the same
-- group and the same place among its collectives in a step, or in the file where there are no steps. Sends and receives
-- are numbered by each rank for itself, so theirs is the place among those of the same two ranks in the step (of nsys ranks in
-- the communicator: that these are the ranks of the inputs is not known). Where no group is
-- recorded it is taken to be the whole job, unless two ranks cannot have met in all collectives of one operation and name: no
-- offset of their clocks would let each of them begin before the other one ended. Between ranks of one
-- machine no offset is looked for, if on its clock they can have met in all collectives of another operation or name.
--
--     rank 0   |==|        |==|                     one that is the first for both ranks, and so on: in the first rank 5's
--     rank 5    |==|                  |==|          clock would go as 0's, in the second it would be ahead by half the line
--
-- Threads of gloo may begin what was called one after another in any order. Where the ranks have the same collectives in a step,
-- by operation, type and bytes, the place is that among those alike.
--
-- They count as matched only if all agree on operation and type, and on bytes
-- (an all-to-all, a gather, a scatter and those of names in v may be uneven), and if each rank of the group is there
-- once. Only inputs of one kind are compared. Where there is one rank alone there is no row, nor of a second pass of a rank
-- that recorded memory.
--
-- columns:
--   collective_id   bigint    the row of collective
--   match_id        bigint    the same for all rows of one collective, NULL where it is unmatched
--   matched_by      varchar   'comms_id', 'seq' or 'place' (the same place in the same step)
--   step            bigint    number of the step that it was called in, NULL outside of steps
--   reason          varchar   why it is unmatched, NULL where it is matched

with
member as materialized (
    select
        collective.*,
        coalesce(collective.process_id, 0) as process,
        source.kind,
        source.rank,
        source.name as input,
        source.host,
        source.world_size,
        coalesce(source.origin_ns, 0) as origin_ns,
        coalesce(collective.start_ns, collective.work_start_ns) as time_ns,
        coalesce(group_name, '') || coalesce(group_ranks, '') as "group",
        operation in ('send', 'recv') as is_p2p
    from collective
    join source using (source_id)
    where operation is not null
        and (select count(distinct rank) from source) > 1
        and source_id not in (from _memory_pass)
),
left_out as (
    select source_id, any_value(detail order by detail) as detail
    from _rank_problem
    where is_left_out
    group by source_id
),
step as (
    select source_id, start_ns, any_value(step order by step) as step
    from _step
    group by source_id, start_ns
),
stepped as (
    select member.*, step.step, member.source_id in (select source_id from step) as has_steps
    from member
    asof left join step
        on step.source_id = member.source_id and step.start_ns <= member.time_ns
    where member.source_id not in (select source_id from left_out)
),
-- what nobody has called in an order that is recorded: what each rank has of it in a step
sized as (
    select
        *,
        format('{} {} {}', operation, coalesce(dtype, ''), coalesce(in_bytes, out_bytes, -1)) as looks,
        device_id is null and not is_p2p and coalesce(start_ns = work_start_ns, false) as is_unordered
    from stepped
),
alike as (
    select kind, "group", step
    from (
        select kind, "group", step, source_id, bool_and(is_unordered) as is_unordered, list(looks order by looks) as all_looks
        from sized
        group by kind, "group", step, source_id
    )
    group by kind, "group", step
    having bool_and(is_unordered) and count(distinct all_looks) = 1
),
apart as (
    select sized.*, if(alike.kind is null, '', looks) as looks_alike
    from sized
    left join alike
        on alike.kind = sized.kind
        and alike."group" = sized."group"
        and alike.step is not distinct from sized.step
),
placed as (
    select
        *,
        if(is_p2p, [src_rank, dst_rank], null) as pair,
        -- what lies before the first step is counted backwards from it
        if(
            step is null and has_steps,
            -row_number() over (same_place order by time_ns desc, collective_id desc),
            row_number() over (same_place order by time_ns, collective_id)
        ) as place
    from apart
    window same_place as (
        partition by source_id, process, "group", is_p2p, if(is_p2p, [src_rank, dst_rank], null), step, looks_alike
    )
),
keyed as (
    select
        *,
        case
            when comms_id is not null and not is_p2p then 'comms_id'
            when seq is not null and group_name is not null and not is_p2p then 'seq'
            else 'place'
        end as matched_by,
        case matched_by
            when 'comms_id' then comms_id
            when 'seq' then format('{}/{}', "group", seq)
            else format('{}/{}/{}/{}{}', "group", coalesce(step::varchar, '-'), coalesce(pair::varchar, ''), place, looks_alike)
        end as key
    from placed
),
counted as (
    select
        *,
        -- of operations that went out together
        row_number() over (partition by source_id, process, matched_by, key order by time_ns, collective_id) as part
    from keyed
),
-- in which nobody ends before all have begun
ungrouped as (
    select
        kind,
        key,
        part,
        source_id,
        operation,
        name,
        origin_ns + work_start_ns as start_ns,
        origin_ns + work_end_ns as end_ns,
        host,
        source_id = min(source_id) over (partition by kind) as is_first
    from counted
    where "group" = ''
        and work_start_ns is not null
        and operation in ('all_reduce', 'all_gather', 'reduce_scatter', 'all_to_all', 'barrier')
),
-- of what is called alike by the first input and by another
unmet as (
    select distinct kind, operation, name
    from (
        select one.kind, one.operation, one.name
        from ungrouped as one
        join ungrouped as other
            on other.kind = one.kind
            and other.key = one.key
            and other.part = one.part
            and other.operation = one.operation
            and other.name = one.name
        where one.is_first and not other.is_first
        group by one.kind, one.operation, one.name, other.source_id
        -- clocks run apart by less than a 500th
        having max(other.start_ns - one.end_ns) - min(other.end_ns - one.start_ns)
            > greatest(20_000, (max(one.end_ns) - min(one.start_ns)) // 500)
    )
    union
    -- times of a machine's devices are right to some microseconds
    select distinct kind, operation, name
    from (
        select *, bool_or(can_have_met) over (partition by kind, host) as is_one_clock
        from (
            select kind, host, operation, name, max(apart_ns) <= 20_000 as can_have_met
            from (
                select kind, host, operation, name, max(start_ns) - min(end_ns) as apart_ns
                from ungrouped
                where host is not null
                group by kind, host, operation, name, key, part
                having count(distinct source_id) > 1
            )
            group by kind, host, operation, name
        )
    )
    where is_one_clock and not can_have_met
),
gathered as (
    select
        kind,
        matched_by,
        key,
        part,
        min(collective_id) as match_id,
        count(*) as row_cnt,
        count(distinct rank) as rank_cnt,
        count(rank) as known_cnt,
        list_sort(list(distinct rank)) as ranks,
        any_value(is_p2p) as is_p2p,
        count(src_rank) = count(*) and count(dst_rank) = count(*) as has_peers,
        if(any_value(is_p2p), 2, coalesce(any_value(group_size), any_value(world_size))) as expected_cnt,
        if(
            any_value(is_p2p),
            if(kind_knows_peers(kind), [any_value(src_rank), any_value(dst_rank)], null),
            coalesce(
                try_cast(any_value(group_ranks) as bigint[]),
                if(any_value("group") = '', range(any_value(world_size)), null)
            )
        ) as expected,
        string_agg(distinct operation::varchar, ', ' order by operation::varchar) as operations,
        count(distinct operation) as operation_cnt,
        string_agg(distinct dtype, ', ' order by dtype) as dtypes,
        count(distinct dtype) as dtype_cnt,
        list({'rank': rank, 'bytes': coalesce(in_bytes, out_bytes)} order by rank) as each_bytes,
        mode(coalesce(in_bytes, out_bytes)) as usual_bytes,
        count(distinct coalesce(in_bytes, out_bytes)) as bytes_cnt,
        bool_or(operation in ('all_to_all', 'gather', 'scatter') or name ilike '%v') as may_be_uneven,
        bool_or("group" = '' and unmet.kind is not null) as is_unmet
    from counted
    left join unmet using (kind, operation, name)
    group by kind, matched_by, key, part
),
judged as (
    select
        *,
        list_filter(expected, lambda one: not list_contains(ranks, one::integer)) as missing,
        list_filter(each_bytes, lambda one: one.bytes <> usual_bytes) as unusual,
        case
            when known_cnt < row_cnt then 'the rank of an input is not recorded'
            when expected_cnt is null then 'the size of the group is not recorded'
            when is_p2p and not has_peers then 'the ranks that send and receive are not recorded'
            when row_cnt > rank_cnt then 'a rank is in several inputs'
            when is_unmet then 'groups are not recorded, and not all ranks met in these'
            when rank_cnt < expected_cnt and len(missing) > 0
                then 'missing: rank ' || array_to_string(missing[:8], ', ') || if(len(missing) > 8, ' …', '')
            when rank_cnt <> expected_cnt then format('{} of {} ranks', rank_cnt, expected_cnt)
            when operation_cnt > 1 and not is_p2p then 'operations differ: ' || operations
            when dtype_cnt > 1 then 'types differ: ' || dtypes
            when bytes_cnt > 1 and not may_be_uneven then format(
                'bytes differ: {}{}, most others {}',
                array_to_string(list_transform(unusual[:8], lambda one: format('rank {} {}', one.rank, one.bytes)), ', '),
                if(len(unusual) > 8, ' …', ''),
                usual_bytes
            )
        end as reason
    from gathered
)
select
    counted.collective_id,
    if(judged.reason is null, judged.match_id, null) as match_id,
    counted.matched_by::enum('comms_id', 'seq', 'place') as matched_by,
    counted.step,
    judged.reason
from counted
join judged using (kind, matched_by, key, part)
union all
select member.collective_id, null, null, null, 'its input is left out: ' || left_out.detail
from member
join left_out using (source_id)
