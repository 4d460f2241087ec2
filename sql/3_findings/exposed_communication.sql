-- A row is one range whose communication runs while the GPU computes nothing.
--
-- Overlap it with computing (DDP's buckets, FSDP's prefetching, gradient accumulation with no_sync), send less (LoRA's gradients alone, bfloat16), or find the rank that comes late: see straggler.
select
    source_id,
    place,
    saving_ns,
    occurrence_cnt,
    format('{} of communication with nothing beside it, the most in {}', said_ns(saving_ns), largest) as evidence,
    if(
        exists (select 1 from name where regexp_matches(text, '(?i)backward|(^|[^a-z])bwd|wgrad|dgrad|(^|[^a-z])adamw?([^a-z]|$)')),
        null,
        'Without a backward: let fewer GPUs hold one model (less tensor parallelism, more replicas), send less (8 bits, '
        || 'all-reduce fused with the norm behind it), batch more, or find the rank that comes late: see straggler.'
    ) as advice
from _exposed_place
where activity = 'communication'
