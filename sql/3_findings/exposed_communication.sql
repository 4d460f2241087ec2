-- A row is one range whose communication runs while the GPU computes nothing.
--
-- Overlap it with computing (DDP's buckets, FSDP's prefetching, gradient accumulation with no_sync), send less (LoRA's gradients alone, bfloat16), or find the rank that comes late: see straggler.
select
    source_id,
    place,
    saving_ns,
    occurrence_cnt,
    format('{} of communication with nothing beside it, the most in {}', said_ns(saving_ns), largest) as evidence
from _exposed_place
where activity = 'communication'
