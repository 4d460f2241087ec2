-- A row is whether a piece of a Kineto trace has allocations, and whether it has collective operations: both are read apart.

select
    count(*) filter (name = '[memory]') > 0 as has_memory,
    count(*) filter (name = 'record_param_comms' or collective_name is not null) > 0 as has_collective
from batch
