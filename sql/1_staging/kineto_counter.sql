-- A row is what a hardware counter counted of one kernel: NULL where that is no number, no counter either where it has none.
--
-- CUPTI calls '__missing__' what it has no name for.
--
-- needs: batch, counter_batch, reading, staged_name

select
    reading.source_id,
    said.position as profiled_id,
    kernel.name_id,
    counter.name_id as counter_id,
    said.value
from counter_batch as said
join batch using (position)
cross join reading
left join staged_name as counter on counter.text = said.counter
left join staged_name as kernel on kernel.text = batch.name and batch.name <> '__missing__'
