-- A row is one NVTX range with its full text, from NVTX_EVENTS (push/pop 59 and 70, start/end 60 and 71).
--
-- The text is in the row or in StringIds, both in one file; a range of a named domain gets 'domain:' in front, as nsys
-- prints it. A range that NVTX says ended on another thread keeps that thread.
--
-- needs: batch, nvtx_domain, string

select
    batch.position,
    batch.start as start_ns,
    batch.end as end_ns,
    case when batch.eventType in (59, 70) then 'PushPop' else 'StartEnd' end as style,
    batch.globalTid as thread_id,
    nullif(batch.endGlobalTid, batch.globalTid) as end_thread_id,
    case
        when nvtx_domain.text in ('NCCL', 'MPI', 'NVSHMEM', 'cuBLAS', 'cuBLASLt', 'cuDNN', 'cuSPARSE', 'cuSOLVER', 'cuFFT',
            'CCCL', 'TensorRT') then 'library'
        else 'annotation'
    end as kind,
    concat(nvtx_domain.text || ':', coalesce(string.value, batch.text, '')) as text
from batch
left join string on string.id = batch.textId
left join nvtx_domain
    on nvtx_domain.domain_id = batch.domainId
    and nvtx_domain.process_id = (batch.globalTid & ~16777215)
where batch.globalTid is not null and is_measured(batch.start, coalesce(batch.end, batch.start))
