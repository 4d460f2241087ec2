-- A row is a device of an input that recorded memory, when inputs are asked which knows most of what memory is for.
--
-- columns:
--   source_id   integer   the input
--   kind        varchar   what it is, as in source
--   device      varchar   the device
--   most_bytes  bigint    what its peak holds
--   is_named    boolean   whether the pass of a run that names owners of memory recorded it

select
    peak.source_id,
    source.kind::varchar as kind,
    peak.device,
    sum(peak.live_bytes)::bigint as most_bytes,
    peak.source_id in (select source_id from memory_owner) as is_named
from memory_peak as peak
join source using (source_id)
group by peak.source_id, source.kind, peak.device
