-- Macro collective_operation(name): what a collective of this name does.
--
-- The name is torch's ('_allgather_base', 'allreduce_coalesced'), a range's ('nccl:all_reduce', 'NCCL:ncclAllReduce') or a
-- kernel's. NULL for what moves nothing: waiting, making a communicator, beginning a group.

create macro collective_operation(name) as
    case
        when name is null then null
        when regexp_matches(replace(name, '_', ''), '(?i)reducescatter') then 'reduce_scatter'
        when regexp_matches(replace(name, '_', ''), '(?i)allreduce|crossdevicereduce|(one|two)shot') then 'all_reduce'
        when regexp_matches(replace(name, '_', ''), '(?i)allgather') then 'all_gather'
        when regexp_matches(replace(name, '_', ''), '(?i)alltoall') then 'all_to_all'
        when regexp_matches(name, '(?i)barrier') then 'barrier'
        when regexp_matches(name, '(?i)broadcast') then 'broadcast'
        when regexp_matches(name, '(?i)send_?recv') then 'other'
        when regexp_matches(name, '(?i)(^|[^a-z])(nccl)?(gloo:)?recv') then 'recv'
        when regexp_matches(name, '(?i)(^|[^a-z])(nccl)?(gloo:)?send') then 'send'
        when regexp_matches(name, '(?i)(^|[^a-z])(nccl(dev)?(kernel)?_?)?reduce($|[^a-z]|_)') then 'reduce'
        when regexp_matches(name, '(?i)(^|[^a-z])(nccl)?gather($|[^a-z])') then 'gather'
        when regexp_matches(name, '(?i)(^|[^a-z])(nccl)?scatter($|[^a-z])') then 'scatter'
        when regexp_matches(name, '(?i)^(nccl:)?(wait|init|coalesced|end_coalesc|start_coalesc)|ncclGroup|ncclComm') then null
        else 'other'
    end
