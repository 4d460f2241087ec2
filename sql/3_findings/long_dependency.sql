-- A row is one range whose work was launched and then waited for longer than the threshold long_gap_ns while the GPU was idle.
--
-- The CPU was in time: the work waited for an event of another stream, a copy, another rank, or the driver. Look at what ended just before it, on other streams and on other ranks.
select source_id, place, saving_ns, occurrence_cnt, evidence
from _long_gap_place
where rule = 'long_dependency'
