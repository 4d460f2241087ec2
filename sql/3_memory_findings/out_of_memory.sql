-- A row is one allocation that failed.
--
-- If what was held unused plus what the device had left covers what was asked for, it is fragmentation (before it gives up, torch releases whole segments that are unused): expandable_segments:True. Otherwise the run must use less memory: start with the largest category.

select
    source_id,
    device,
    requested_bytes as cost_bytes,
    format('{:,.0f} MiB were asked for with {:,.0f} MiB in use, {:,.0f} held unused and {} left on the device; most of it {} ({:,.0f} MiB)',
        requested_bytes / 1048576, live_bytes / 1048576, unused_bytes / 1048576,
        coalesce(format('{:,.0f}', free_bytes / 1048576), 'an unknown amount'), coalesce(memory_kind(largest_category), 'unknown'),
        coalesce(largest_bytes, 0) / 1048576) as evidence,
    if(
        unused_bytes > 0 and unused_bytes + coalesce(free_bytes, 0) >= requested_bytes,
        'It was there, in pieces too small or in another pool: '
        || if(source_id in (from _expandable), '', 'PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, and ')
        || 'fewer different sizes.',
        'The run must use less memory: start with what takes most.'
    )
    -- the first step allocates them; a second backward shows that an optimizer worked which nothing names
    || if(
        source_id in (select source_id from _memory_learning)
        and source_id not in (
            select source_id
            from _memory_phase_stretch
            group by source_id
            having bool_or(phase = 'optimizer') or count(*) filter (phase = 'backward') > 1
        ),
        ' No step has finished: gradients and optimizer states of all trained weights come on top (Adam: three times their size).',
        ''
    ) as advice
from out_of_memory
