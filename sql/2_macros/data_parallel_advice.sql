-- A row is no row: this is the macro data_parallel_advice(), what to do instead of nn.DataParallel; NULL where nothing shows it.

create macro data_parallel_advice() as
    -- its autograd functions
    if(
        exists (select 1 from name where text in ('BroadcastBackward', 'ReduceAddCoalesced')),
        'nn.DataParallel sends the model to each GPU in each step: start a process for each (torchrun, accelerate launch), '
        || 'which makes it DDP, or show it one GPU (CUDA_VISIBLE_DEVICES=0). HF''s Trainer takes DataParallel where it sees '
        || 'several GPUs in one process.',
        null
    )
