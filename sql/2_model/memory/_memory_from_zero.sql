-- A row is a device of an input in whose numbers there is nothing of what was there before the recording.
--
-- Nothing says it where the file begins to count with the recording, unless the ledger of a run took stock.
--
-- columns:
--   source_id   integer   the input
--   device      varchar   the device

select distinct event.source_id, event.device
from memory_event as event
join source using (source_id)
where not kind_counts_before(source.kind, event.device)
    and not exists (
        from memory_owner as owner
        where owner.is_before and owner.source_id = event.source_id and owner.device = event.device
    )
