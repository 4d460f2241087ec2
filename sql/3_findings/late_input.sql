-- A row is one range that fetches input while the GPU is idle, or without GPU work while no operator runs.
--
-- Load ahead: more workers and prefetching (DataLoader(num_workers=…, prefetch_factor=…, persistent_workers=True)), tokenise before training, pin memory and copy with non_blocking=True.
--
-- Without torch: Load ahead: more threads or processes that read and prepare input, a queue of batches that are ready, pinned memory and asynchronous copies.
select
    source_id,
    place,
    saving_ns,
    occurrence_cnt,
    format('the GPU waits {}, {}', if(occurrence_cnt = 1, 'once', occurrence_cnt || ' times'),
        said_lengths(occurrence_cnt, mean_ns, longest_ns, long_cnt, long_ns)) as evidence,
    if(
        contains(place, 'DALI'),
        'Let DALI read ahead: more threads (num_threads), a deeper queue (prefetch_queue_depth), decoding on the GPU '
        || '(device="mixed"), input on a disk of the node.',
        null
    ) as advice
from _blamed_place
where rule = 'late_input'
union all
select
    source_id,
    place,
    sum(ns) as saving_ns,
    count(*) as occurrence_cnt,
    format('the loop waits {}, {}', if(count(*) = 1, 'once', format('{:,} times', count(*))),
        said_lengths(count(*), avg(ns), max(ns), count(*) filter (is_long), coalesce(sum(ns) filter (is_long), 0))) as evidence,
    null as advice
from (
    select *, 8 * ns >= max(ns) over (partition by source_id, place) as is_long
    from (
        select gap.source_id, range_path.path as place, gap.end_ns - gap.start_ns as ns
        from _cpu_gap as gap
        left join range_path using (path_id)
        where gap.rule = 'late_input'
    )
)
group by source_id, place
