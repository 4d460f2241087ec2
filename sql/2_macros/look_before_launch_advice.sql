-- A row is no row: this is the macro look_before_launch_advice(is_torch), what to do where nothing says what the CPU does in gaps.

create macro look_before_launch_advice(is_torch) as
    if(
        is_torch,
        'Look at what the CPU did before the launch: reading input, Python, logging, checkpoints, evaluation, '
        || 'allocating. Name it with ranges (lorabench.span), or record Python''s stacks.',
        'Look at what the CPU did before the launch: reading input, writing files, logging, allocating. Name it '
        || 'with ranges (NVTX), or record the CPU''s samples (nsys profile --sample=process-tree).'
    )
