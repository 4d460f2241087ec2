-- Macro data_parallel_advice(of_source): what to do instead of nn.DataParallel; NULL for inputs where nothing shows it.

create macro data_parallel_advice(of_source) as
    -- its autograd functions
    if(
        of_source in (
            select source_id from range_path join name using (name_id) where text in ('BroadcastBackward', 'ReduceAddCoalesced')
        ),
        'nn.DataParallel sends the model to each GPU in each step: start one process per GPU (torchrun, accelerate launch), '
        || 'which makes it DDP, or show it one GPU (CUDA_VISIBLE_DEVICES=0). HF''s Trainer uses DataParallel where it sees '
        || 'several GPUs in one process.',
        null
    )
