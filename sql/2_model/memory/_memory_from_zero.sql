-- A row is a device of an input in whose numbers there is nothing of what was there before the recording.
--
-- Nothing says it where the file begins to count with the recording or has no totals (old ones of torch's profiler), unless the
-- ledger of a run took stock.
--
-- columns:
--   source_id   integer   the input
--   device      varchar   the device

select event.source_id, event.device
from (
    select source_id, device, count(allocated_bytes) > 0 as has_totals, bool_or(is_before) as has_stock
    from memory_event
    group by source_id, device
) as event
join source using (source_id)
where (not kind_counts_before(source.kind, event.device) or not (event.has_totals or event.has_stock))
    and not exists (
        from memory_owner as owner
        where owner.is_before and owner.source_id = event.source_id and owner.device = event.device
    )
