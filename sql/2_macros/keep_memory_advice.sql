-- Macro keep_memory_advice(is_torch): what to do about calls that take and free memory in a loop.

create macro keep_memory_advice(is_torch) as
    'Allocate and free no memory within steps: '
    || if(
        is_torch,
        'leave PyTorch''s caching allocator on (no PYTORCH_NO_*_MEMORY_CACHING), no empty_cache(), and memory '
        || 'not so full that it frees on its own.',
        'allocate it once and keep it, or use a pool (cudaMallocAsync).'
    );
