-- A row is an input of a run of lorabench collect, and what the run's files say of it, by name.
--
-- columns:
--   source_id   integer   the input
--   said        map       texts: how it was set up ('method', 'peft_mode', 'parallel' …), and what it measured without a profiler

select source_id, map_from_entries(list({'name': name, 'value': value})) as said
from (
    select source_id, regexp_replace(item, '^run: ', '') as name, any_value(value) as value
    from source_fact
    where section = 'about' and starts_with(item, 'run: ')
    group by source_id, name
)
group by source_id
