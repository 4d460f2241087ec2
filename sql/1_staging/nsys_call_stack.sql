-- A row is a CUDA call that says which stack it was called from, from CUPTI_ACTIVITY_KIND_RUNTIME.
--
-- needs: batch, string_ref

select batch.callchainId as stack_id, batch.globalTid as thread_id, batch.correlationId as correlation_id, string_ref.api_name_id
from batch
left join string_ref on string_ref.string_id = batch.nameId
where batch.callchainId is not null and batch.globalTid is not null and batch.correlationId is not null
