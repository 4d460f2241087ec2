-- Macro look_before_launch_advice(of_source): what to do where nothing says what the CPU does in gaps.

create macro look_before_launch_advice(of_source) as
    if(
        has_torch(of_source),
        'Look at what the CPU did before the launch: reading input, Python, logging, checkpoints, evaluation, '
        || 'allocating. Name it with ranges (lorabench.span), or record Python''s stacks.',
        'Look at what the CPU did before the launch: reading input, writing files, logging, allocating. Name it '
        || 'with ranges (NVTX), or '
        || if(has_samples(of_source), 'look at the CPU''s samples (sample_summary).',
            'record the CPU''s samples (nsys profile --sample=process-tree).')
    )
