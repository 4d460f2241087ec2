-- A row is one range that fetches input while the GPU is idle, or without GPU work while no operator runs.
--
-- Load ahead: more workers and prefetching (DataLoader(num_workers=…, prefetch_factor=…, persistent_workers=True)), tokenize before training, pin memory and copy with non_blocking=True.
--
-- Without torch: Load ahead: more threads or processes that read and prepare input, a queue of batches that are ready, pinned memory and asynchronous copies.
--
-- Only with: select 1 from _blamed_place where rule = 'late_input'
-- union all select 1 from _cpu_gap_place where rule = 'late_input'
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
        || '(device="mixed"), input on a local disk.',
        null
    ) as advice
from _blamed_place
where rule = 'late_input'
union all
select source_id, place, saving_ns, occurrence_cnt, 'the loop waits ' || lengths as evidence, null as advice
from _cpu_gap_place
where rule = 'late_input'
