-- A row is one device of which, at its peak, more than the threshold memory_share_frac was there before the recording, nobody knows what for.
--
-- Mostly weights, and the optimizer's states where it has stepped: a frozen base in 8 or 4 bits (QLoRA), an 8-bit or paged optimizer. To know which: begin to record before the model is made (torch.cuda.memory._record_memory_history()).

with
held as (
    select
        source_id,
        device,
        sum(live_bytes) filter (category = 'unknown' and path = '(before the recording)') as before_bytes,
        sum(live_bytes) filter (category = 'gradient') as gradient_bytes,
        any_value(peak_bytes) as peak_bytes
    from memory_peak
    group by source_id, device
)
select
    source_id,
    device,
    before_bytes as cost_bytes,
    format('{:,.0f} MiB were there before the recording began', before_bytes / 1048576)
    -- each weight that is trained has one gradient of its size, and of Adam two states
    || case
        when before_bytes between 0.97 * gradient_bytes and 1.03 * gradient_bytes
            then ', as much as gradients: the weights'
        when before_bytes between 1.97 * gradient_bytes and 2.03 * gradient_bytes
            then ', twice the gradients: weights and one state of each (momentum)'
        when before_bytes between 2.97 * gradient_bytes and 3.03 * gradient_bytes
            then ', three times the gradients: weights and two states of each (Adam)'
        else ''
    end as evidence
from held
where before_bytes > peak_bytes * (select value from threshold where name = 'memory_share_frac')
