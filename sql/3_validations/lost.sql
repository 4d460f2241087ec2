-- A row is something of an input that could not be read.
--
-- The reports hold the rest; trace_info lists it.

select
    source_id,
    'warning' as severity,
    coalesce(try_cast(value as bigint), 1) as problem_cnt,
    item || ': ' || value as example
from source_fact
where section = 'lost'
