-- A row is one range in which the CPU waits for the GPU while that works on, and is late for it afterwards, as it has lost its lead.
--
-- Let the CPU run ahead: .item(), .cpu(), printing or logging a tensor every N steps or a step later, batches from pinned memory (DataLoader(pin_memory=True)) with non_blocking=True, no torch.cuda.synchronize() and no timer around each part of a step.
--
-- Without torch: Let the CPU run ahead: read results back every N steps or a step later, copy asynchronously from and to pinned memory, leave out cudaDeviceSynchronize and cudaStreamSynchronize.
--
-- Only with: from _lost_lead
select
    source_id,
    place,
    saving_ns,
    occurrence_cnt,
    format(
        '{} of {}, {} in all: the GPU works meanwhile, but later it waits for a CPU that has lost its lead',
        if(occurrence_cnt = 1, 'a call', format('{:,} calls', occurrence_cnt)), calls, said_ns(saving_ns)
    ) as evidence,
    case
        when is_copying
            then 'Copy from and to pinned memory and without waiting: ' || if(
                has_torch(source_id), 'DataLoader(pin_memory=True) and non_blocking=True; read results (.item(), .cpu()) a step later.',
                'cudaMemcpyAsync with memory from cudaHostAlloc; read results a step later.')
        when wait_kind = 'device'
            then format('Leave it out, or do it every N steps: {}, a timer around a part of a step, or the end of a profile.',
                if(has_torch(source_id), 'torch.cuda.synchronize()', 'a synchronize() of the code'))
        when wait_kind = 'memory' then keep_memory_advice(has_torch(source_id))
    end as advice
from _lost_lead
