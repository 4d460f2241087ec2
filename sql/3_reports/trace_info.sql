-- A row is one fact about an input: what it holds, what is missing from it, what was lost while it was read.
--
-- Read it first when a report looks wrong: section 'missing' says which reports stay empty and why, 'lost' what
-- was damaged.
--
-- columns:
--   section     varchar   'about', 'holds', 'missing' or 'lost'
--   item        varchar   what the fact is about
--   value       varchar   the fact
--   note        varchar   what it means for the reports, NULL where it is obvious
--   source_id   integer   the input
--   rank        integer   rank of the input, NULL if not recorded

with
counted as (
    select source_id, 'holds' as section, 'ranges: ' || kind as item, count(*) as value from range group by all
    union all
    select source_id, 'holds', 'ranges without an end', count(*) from range where is_unfinished group by all
    union all
    select source_id, 'holds', 'API calls', count(*) from api_call where not is_duplicate group by all
    union all
    select source_id, 'holds', 'API calls stored twice', count(*) from api_call where is_duplicate group by all
    union all
    select source_id, 'holds', 'GPU operations: ' || kind, count(*) from gpu_op group by all
    union all
    select source_id, 'missing', 'launching calls of GPU operations', count(*) from gpu_op
    where api_call_id is null and name_id not in (select name_id from name where moves_pages(text))
    group by all
    union all
    select source_id, 'holds', 'memory events', count(*) from memory_event group by all
    union all
    select source_id, 'holds', 'synchronisations', count(*) from sync group by all
    union all
    select source_id, 'holds', 'threads', count(*) from thread group by all
),
described as (
    select source_id, 'about' as section, 'file' as item, name as value from source
    union all
    select source_id, 'about', 'kind', kind from source
    union all
    select source_id, 'about', 'format version', format_version from source
    union all
    select source_id, 'about', 'size_bytes', size_bytes::varchar from source
    union all
    select source_id, 'about', 'rank of world size', rank || ' of ' || world_size from source
    union all
    select source_id, 'about', 'device ' || device_id, name from device
),
fact as (
    select source_id, section, item, value, null as note from described where value is not null
    union all
    select
        source_id,
        section,
        item,
        value::varchar,
        if(section = 'missing', 'this GPU work is in every total and in the view unattributed', null)
    from counted
    union all
    select source_id, section, item, value, note from source_fact
)
select
    fact.section,
    fact.item,
    fact.value,
    fact.note,
    fact.source_id,
    source.rank
from fact
join source using (source_id)
order by source_id, section, item, value
