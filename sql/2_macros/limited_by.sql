-- Macro limited_by(sm_active, sm_issue, tensor_active, dram): what keeps work from running faster, by fractions of what a device can do at most.
--
-- Nsight Compute speaks of a limit from 60 % on, and of latency below that in memory and arithmetic alike. What is near its
-- peak is a limit whatever else is not known; that nothing else is takes all counters. Units that take two cycles for an
-- instruction, as those for 32 bits of an A100, are full when every second cycle issues one: then nothing is said.

create macro limited_by(sm_active, sm_issue, tensor_active, dram) as
    case
        when dram >= (select value from threshold where name = 'limit_frac') and dram >= coalesce(greatest(sm_issue, tensor_active), 0)
            then 'memory'
        when tensor_active >= (select value from threshold where name = 'limit_frac') and tensor_active >= coalesce(greatest(sm_issue, dram), 0)
            then 'tensor cores'
        when sm_active is null or sm_issue is null or tensor_active is null or dram is null then null
        when sm_issue >= (select value from threshold where name = 'limit_frac') then 'instructions'
        when sm_active < (select value from threshold where name = 'limit_frac') then 'idle multiprocessors'
        when sm_issue < 0.4 then 'latency'
    end
