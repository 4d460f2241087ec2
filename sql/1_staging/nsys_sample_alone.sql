-- A row is a sample without a stack.
--
-- needs: reading, sample, sampled_frame

select reading.source_id, sample.sample_id, sample.thread_id, sample.start_ns, 0 as depth
from sample
cross join reading
anti join sampled_frame on sampled_frame.source_id = reading.source_id and sampled_frame.sample_id = sample.sample_id
