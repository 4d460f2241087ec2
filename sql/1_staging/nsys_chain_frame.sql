-- A row is a function on a stack of CUDA_CALLCHAINS.
--
-- An address is what nsys writes in the place of a name that it did not find.
--
-- needs: batch, string_ref

select
    batch.id as stack_id,
    batch.stackDepth as depth,
    if(batch.unresolved = 1, null, symbol.name_id) as name_id,
    if(batch.unresolved = 1, null, symbol.api_name_id) as api_name_id,
    module.name_id as module_id
from batch
left join string_ref as symbol on symbol.string_id = batch.symbol
left join string_ref as module on module.string_id = batch.module
where batch.id is not null and is_function(batch.stackDepth, batch.symbol, batch.module, batch.specialEntry)
