-- A row is one range that fetches input while the GPU is idle, or without GPU work while no operator runs.
--
-- Load ahead: more workers and prefetching (DataLoader(num_workers=…, prefetch_factor=…, persistent_workers=True)), tokenize before training, pin memory and copy with non_blocking=True.
--
-- Without torch: Load ahead: more threads or processes that read and prepare input, a queue of batches that are ready, pinned memory and asynchronous copies.
--
-- Only with: select 1 from _blamed_place where rule = 'late_input'
-- union all select 1 from _cpu_gap_place where rule = 'late_input'

with late as (
    select
        source_id, place, saving_ns, occurrence_cnt, long_cnt, long_ns, mean_ns,
        format('the GPU waits {}, {}', if(occurrence_cnt = 1, 'once', occurrence_cnt || ' times'),
            said_lengths(occurrence_cnt, mean_ns, longest_ns, long_cnt, long_ns)) as evidence
    from _blamed_place
    where rule = 'late_input'
    union all
    select source_id, place, saving_ns, occurrence_cnt, long_cnt, long_ns, null, 'the loop waits ' || lengths as evidence
    from _cpu_gap_place
    where rule = 'late_input'
),
usual as (
    select source_id, median(coalesce(data_ns, 0)) as data_ns
    from step_summary
    group by source_id
),
-- more workers take longer to start; where other steps read as long, the GPU waits for more than that in them
few as (
    select source_id, place, coalesce(2 * long_cnt * usual.data_ns > long_ns, false) as are_alike
    from late
    left join usual using (source_id)
    left join _steady_time as steady using (source_id)
    where 3 * long_cnt <= greatest(occurrence_cnt, steady.step_cnt) and 2 * long_ns >= saving_ns
)
select
    source_id,
    late.place,
    saving_ns,
    occurrence_cnt,
    late.evidence || case
        when few.are_alike then '; in other steps that is a part of longer gaps'
        -- what else the CPU does until it launches is in these gaps, too
        when 1.2 * usual.data_ns < late.mean_ns and usual.data_ns > 0 and occurrence_cnt between 0.8 * steady.step_cnt and 1.2 * steady.step_cnt
            then format('; reading takes {} of a step', said_ns(usual.data_ns))
        else ''
    end as evidence,
    case
        when contains(place, 'DALI') then
            'Let DALI read ahead: more threads (num_threads), a deeper queue (prefetch_queue_depth), decoding on the GPU '
            || '(device="mixed"), input on a local disk.'
        when has_torch(source_id) and not few.are_alike then
            'A few batches make most of it. Where they are the first of a pass over the data, workers start: keep them '
            || '(persistent_workers=True), and no more than are needed. Where any may be, prepare the costly ones before training.'
    end as advice
from late
left join few using (source_id, place)
left join usual using (source_id)
left join _steady_time as steady using (source_id)
