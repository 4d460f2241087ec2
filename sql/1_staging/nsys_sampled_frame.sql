-- A row is a function on the stack of a sample, from SAMPLING_CALLCHAINS.
--
-- An address is what nsys writes in the place of a name that it did not find.
--
-- needs: batch, reading, sample, string_ref

select
    reading.source_id,
    sample.sample_id,
    sample.thread_id,
    sample.start_ns,
    batch.stackDepth as depth,
    if(batch.unresolved = 1, null, symbol.name_id) as name_id,
    module.name_id as module_id
from batch
cross join reading
join sample on sample.sample_id = batch.id
left join string_ref as symbol on symbol.string_id = batch.symbol
left join string_ref as module on module.string_id = batch.module
where is_function(batch.stackDepth, batch.symbol, batch.module, batch.specialEntry)
