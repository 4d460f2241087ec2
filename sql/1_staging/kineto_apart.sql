-- A row is how many events a piece of a Kineto trace has, and whether allocations and collective operations are among them: both are read apart.
--
-- needs: batch

select
    count(*) as event_cnt,
    count(*) filter (name = '[memory]') > 0 as has_memory,
    count(*) filter (name = 'record_param_comms' or collective_name is not null) > 0 as has_collective
from batch
