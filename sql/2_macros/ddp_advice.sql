-- Macro ddp_advice(of_source, path): what to do where DistributedDataParallel itself copies; NULL elsewhere.

create macro ddp_advice(of_source, path) as
    case
        -- a model's own operators are in it, too: it has flattened and copied what it sends in the same forward
        when regexp_matches(
                path, 'DistributedDataParallel\.forward/(aten::(copy_|(un)?flatten_dense_tensors)|(.*/)?(c10d::|nccl:_?|NCCL:nccl)[bB]roadcast)'
            )
            and of_source in (
                select source_id
                from range_path
                join name using (name_id)
                where regexp_matches(name.text, '^(c10d::|nccl:_?|NCCL:nccl)[bB]roadcast')
                    and contains(range_path.path, 'DistributedDataParallel.forward/')
            )
            then 'DDP sends its buffers here in each forward: broadcast_buffers=False, where ranks may differ in them '
                || '(running statistics of batch norm).'
        when contains(path, 'copy_bucket_to_grad')
            then 'DDP copies each bucket into the gradients here: gradient_as_bucket_view=True.'
    end
