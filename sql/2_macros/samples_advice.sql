-- Macro samples_advice(module, is_torch): what to do where the GPU waits for what runs in a library or program.

create macro samples_advice(module, is_torch) as
    case
        when regexp_matches(module, '(?i)^(lib)?python[0-9.]*(\.so|\.dll|\.exe|$)')
            then 'Python itself runs there, and samples do not say which lines: name them with '
                || if(is_torch,
                    'ranges (lorabench.span), or record Python''s stacks (torch.profiler, with_stack=True).',
                    'ranges (NVTX).')
                || ' Functions that it calls are in sample_summary.'
        when regexp_matches(module, '(?i)^(lib|nv)?(cuda|nvrtc|nvjitlink|nvidia-ptxjit|nvvm|nvptx|amdhip|hsa-runtime|hiprtc|comgr)')
            then 'The driver itself runs there, as when it loads or compiles kernels, allocates or launches: warm up before the '
                || 'recording begins, keep memory, launch fewer and larger kernels. Its callers are in sample_summary.'
        else format('Look at what runs there in {} and what calls it (sample_summary): do that ahead, in a separate thread or process{}, or less often.',
            coalesce(module, 'that code'), if(is_torch, ' (workers of a DataLoader)', ''))
    end
