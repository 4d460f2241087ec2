-- Macro limited_by(sm_active, sm_issue, tensor_active, dram): what keeps work from running faster, by fractions of what a device can do at most.
--
-- Nsight Compute speaks of a limit from 60 % on, and of latency below that in memory and arithmetic alike. NULL where
-- no limit is seen and the device has no counter of its memory.

create macro limited_by(sm_active, sm_issue, tensor_active, dram) as
    case
        when greatest(sm_issue, tensor_active, dram) >= (select value from threshold where name = 'limit_frac') then
            case greatest(sm_issue, tensor_active, dram)
                when dram then 'memory'
                when tensor_active then 'tensor cores'
                else 'instructions'
            end
        when sm_active < (select value from threshold where name = 'limit_frac') then 'idle multiprocessors'
        when sm_active is not null and dram is not null then 'latency'
    end
