-- A row is a function on a stack of CUDA_CALLCHAINS.
--
-- An address is what nsys writes in the place of a name that it did not find. Entries that it adds itself, as where a stack is
-- broken off, are in a module of their own name.
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
where batch.id is not null
    and batch.stackDepth between 0 and 2147483647
    and batch.symbol is distinct from batch.module
    and batch.specialEntry is distinct from 1
