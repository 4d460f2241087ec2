-- A row is a warning or an error of nsys that may be why an input holds no GPU work.
--
-- columns:
--   source_id        integer   the input
--   item             varchar   'nsys warning' or 'nsys error'
--   text             varchar   what nsys says
--   is_unsupported   boolean   whether it says that something is not supported, which explains most

select source_id, item, value as text, contains(value, 'not supported') as is_unsupported
from source_fact
where item in ('nsys warning', 'nsys error') and regexp_matches(value, '(?i)cuda|cupti')
