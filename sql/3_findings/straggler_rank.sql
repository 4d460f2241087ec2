-- A row is a rank that others waited for, in the steps in which it was a straggler, with what it spent more on.
--
-- If compute: uneven batches or lengths on this rank, or a slower GPU. If idle: its CPU is late, in the range named (the data, a file system, a busy host). If copies or exposed communication: its links. Compare it with another rank: lorabench compare.
--
-- Only with: from _several_ranks

with
late as (
    select
        judged.*,
        source.kind,
        if(found_by = 'arrival', coalesce(late_ns, 0), lag_ns) as behind_ns
    from straggler as judged
    join source using (source_id)
    join _steady_time as steady using (source_id)
    left join (
        select source_id, step, max(end_ns) as end_ns from _step group by source_id, step
    ) as timed on timed.source_id = judged.source_id and timed.step = judged.step
    where judged.is_straggler and coalesce(timed.end_ns > steady.start_ns, true)
),
-- what a rank does after the last collective of a step makes that longer, and the next one; and what it does before a barrier
-- between steps the next one alone: what is saved in a step in which nobody is late counts in the one that follows, or else
-- in the one before
replayed as (
    select
        kind,
        step,
        saving_ns
        + coalesce(if(lag(is_late) over by_step, 0, lag(saving_ns) over by_step), 0)
        + coalesce(
            if(lead(is_late) over by_step or lead(is_late, 2) over by_step, 0, lead(saving_ns) over by_step), 0
        ) as saving_ns
    from (
        select
            source.kind,
            replayed.step,
            avg(replayed.replayed_ns - replayed.without_ns) as saving_ns,
            bool_or(late.source_id is not null) as is_late
        from _replayed_rank as replayed
        join source using (source_id)
        left join late on late.source_id = replayed.source_id and late.step = replayed.step
        where replayed.without_ns is not null
        group by source.kind, replayed.step
    )
    window by_step as (partition by kind order by step)
),
shared as (
    select
        late.*,
        coalesce(replayed.saving_ns, least(max(behind_ns) over same_step, sum(kept_waiting_ns) over same_step)) * kept_waiting_ns
        / nullif(sum(kept_waiting_ns) over same_step, 0) as saving_ns
    from late
    left join replayed on replayed.kind = late.kind and replayed.step = late.step
    window same_step as (partition by late.kind, late.step)
)
select
    shared.source_id,
    format('rank {}', any_value(shared.rank)) as place,
    greatest(sum(saving_ns), 0)::bigint as saving_ns,
    count(*) as occurrence_cnt,
    if(
        any_value(shared.step) is null, 'late',
        format('late in {} step{}', count(*), if(count(*) = 1, '', 's'))
    )
    || format(', others waited {} for it', said_ns(sum(kept_waiting_ns)))
    || coalesce(
        format('; cause: {}, {} more than the others', replace(any_value(why.cause), '_', ' '), said_ns(any_value(why.cause_ns)))
        || coalesce(
            case
                when starts_with(any_value(why.cause), 'idle') then '; in the longest gap its CPU is'
                when any_value(why.place_ns) < any_value(why.cause_ns) then format(', {} of it', said_ns(any_value(why.place_ns)))
                else ','
            end
            || format(' in {}', if(
                length(any_value(why.cause_place)) > 28, regexp_extract(any_value(why.cause_place), '[^/]*$'), any_value(why.cause_place)
            )),
            ''
        ),
        ''
    ) as evidence,
    case
        when any_value(why.cause) = 'compute'
            then if(
                any_value(stage.stage_cnt) > 1,
                'Its stage has more to compute: give it fewer layers (other split points, --balance of lorabench collect); if stages are '
                || 'even, ',
                'Give each rank equally many tokens (batches by length, packing), which saves this; if they are even, '
            )
            || if(
                any_value(with_gpu.source_id) is null,
                'its cores are slower or shared: look at what else runs on them, at threads (OMP_NUM_THREADS), and bind it (numactl).',
                'its GPU is slower, and fixing that saves more: look at clocks, heat and other programs (nvidia-smi -q -d PERFORMANCE).'
            )
        when any_value(why.cause) = 'idle: late_input'
            then 'Its data comes later than the others'': look at its shard (long samples, another disk), at its loader''s workers '
            || 'and at what else runs on its CPUs.'
        when any_value(why.cause) like 'idle%'
            then 'Its CPU is late: look at what this rank alone does there (logging, checkpoints, evaluation), at what else runs on '
            || 'its cores, and bind each rank to cores near its GPU (numactl).'
        when any_value(why.cause) = 'copies' and any_value(copied.bytes) > 1.1 * any_value(copied.usual_bytes)
            then format(
                'It copies {:.3g} times as many bytes as the others: look at what this rank alone moves, and move it while something computes '
                || '(pinned memory, non_blocking=True).', any_value(copied.bytes) / nullif(any_value(copied.usual_bytes), 0)
            )
        when any_value(why.cause) is not null
            then 'Its links are slower: compare nvidia-smi topo -m, link widths and network cards of the machines, and what else uses them.'
    end as advice
from shared
left join _straggler_cause as why using (source_id)
left join _rank_copied as copied using (source_id)
left join _stage as stage using (source_id)
left join _source_with_gpu as with_gpu using (source_id)
group by shared.source_id
