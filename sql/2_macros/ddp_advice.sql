-- A row is no row: this is the macro ddp_advice(path), what to do where DistributedDataParallel itself copies; NULL elsewhere.

create macro ddp_advice(path) as
    case
        -- a model's own operators are in it, too
        when exists (select 1 from name where regexp_matches(text, '(?i)broadcast'))
            and regexp_matches(path, 'DistributedDataParallel\.forward/(aten::(copy_|cat|(un)?flatten_dense_tensors)|.*broadcast)')
            then 'DDP sends its buffers here in each forward: broadcast_buffers=False, where ranks may differ in them '
                || '(running statistics of batch norm).'
        when contains(path, 'copy_bucket_to_grad')
            then 'DDP copies each bucket into the gradients here: gradient_as_bucket_view=True.'
    end
