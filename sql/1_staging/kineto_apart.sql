-- A row is how many events a piece of a Kineto trace has, and whether allocations, collective operations and hardware counters are
-- among them, which are read apart.
--
-- needs: batch

select
    count(*) as event_cnt,
    count(*) filter (name = '[memory]') > 0 as has_memory,
    count(*) filter (name = 'record_param_comms' or collective_name is not null) > 0 as has_collective,
    count(*) filter (category = 'cuda_profiler_range' and phase = 'X') > 0 as has_counter
from batch
