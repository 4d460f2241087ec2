-- A row is one range in which the CPU waits for the GPU, so that the GPU has nothing to do when the wait is over.
--
-- Move it behind the step, or do it every N steps: .item(), .cpu(), .tolist(), nonzero, boolean masks, printing or logging a tensor, torch.cuda.synchronize().
--
-- Without torch: Move it behind the step, or do it every N steps: reading results back, printing or logging them, cudaDeviceSynchronize, cudaStreamSynchronize.
select
    source_id,
    place,
    saving_ns,
    occurrence_cnt,
    evidence,
    case
        when regexp_matches(calls, '^(cuda|hip)DeviceSynchronize$')
            then format('Leave it out, or do it every N steps: {}, a timer around a step, or the end of a profile.',
                if(has_torch(source_id), 'torch.cuda.synchronize()', 'a synchronize() of the code'))
        -- calls that free memory wait for all that is queued
        when regexp_matches(calls, '(?i)free|alloc') and not contains(calls, 'Synchronize')
            then keep_memory_advice(has_torch(source_id))
    end as advice
from _blamed_wait
where rule = 'synchronisation'
