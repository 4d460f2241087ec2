-- A row is a hardware counter of one event of a piece of a Kineto trace; one without a counter for an event that has none.
--
-- Read apart from the other arguments: few traces have them, and each has names of its own. Reads the file `path`, whose
-- first event has the position behind `first_position`.
--
-- needs: batch

with
written as (
    select $first_position + row_number() over () as position, text
    from read_json($path, format = 'array', records = false, columns = {text: 'json'})
),
counted as (
    select position, map_entries(try_cast(json_extract(text, '$.args') as map(varchar, varchar))) as counters
    from written
    semi join (from batch where category = 'cuda_profiler_range' and phase = 'X') as batch using (position)
),
counter as (
    select position, unnest(if(len(counters) > 0, counters, [null])) as entry
    from counted
)
select
    position,
    entry.key as counter,
    try_cast(entry.value as double) as number,
    if(isfinite(number), number, null) as value
from counter
