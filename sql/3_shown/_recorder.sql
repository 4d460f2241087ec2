-- A row is an input: what recorded it, in a person's words.
--
-- columns:
--   source_id   integer   the input
--   recorder    varchar   'nsys', 'torch.profiler', 'allocator snapshot', or what the reader found out (trace_info, about)

select
    source.source_id,
    coalesce(fact.value, kind_called(source.kind)) as recorder
from source
left join source_fact as fact
    on fact.source_id = source.source_id and fact.section = 'about' and fact.item = 'recorder'
where source.kind is not null
