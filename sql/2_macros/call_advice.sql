-- Macro call_advice(call, is_once, is_longest_long, is_torch): what to do about a call, not a launch, that the GPU
-- waits for.
--
-- is_once: of the gaps of its place the longest is most, or there are two at most. is_longest_long: that one takes a second or more.

create macro call_advice(call, is_once, is_longest_long, is_torch) as
    case
        when regexp_matches(call, 'ProfilerSt(art|op)')
            then 'A profiler begins or ends its recording there, a cost that a run without it does not have.'
        when regexp_matches(call, 'HostAlloc|HostRegister|MallocHost|HostMalloc')
            then 'Host memory is pinned there, which takes long: pin buffers once, beforehand, and keep them.'
        when regexp_matches(call, 'FreeHost|HostFree|HostUnregister')
            then 'Pinned host memory is freed there, which takes long: keep the buffers, and pin no new ones.'
        when regexp_matches(call, '(Malloc|Alloc|Free)(Async|FromPool)')
            then if(
                is_torch,
                'PyTorch''s pool (backend:cudaMallocAsync) keeps its memory already: leave out empty_cache(), leave memory free, or use '
                || 'its own allocator (backend:native). Other libraries set cudaMemPoolAttrReleaseThreshold.',
                'A pool releases its memory at each synchronization unless it is told to keep it: set '
                || 'cudaMemPoolAttrReleaseThreshold, or allocate once.'
            )
        when is_once and is_longest_long
            then 'A call this long initializes CUDA or a library, which is paid once: warm up before the recording begins.'
        when is_once and regexp_matches(call, '(?i)free|malloc')
            then 'If it comes once, a library initializes itself (cuBLAS, cuDNN): warm up before the recording begins. If in '
                || 'each step, it is an allocator without a cache, or one that frees because memory is full.'
        when regexp_matches(call, '(?i)free|malloc|mem(create|release|map|unmap|setaccess|addressreserve)')
            then keep_memory_advice(is_torch)
        when regexp_matches(call, '(?i)((stream|event|ctx|blas\w*|dnn|solver\w*|sparse|fft|rand)create|createhandle)')
            then 'Streams, events and handles are created there: '
                || if(is_once, 'warm up before the recording begins.', 'create them once, beforehand, and keep them.')
        when regexp_matches(call, 'MemGetInfo|DeviceProperties|GetAttribute')
            then 'The driver is queried there, for memory or the device: do that once, or every N steps.'
        when is_once and regexp_matches(call, 'Occupancy|(Func|Kernel)[GS]et|(Module|Library)(Get|Load)')
            then 'A kernel is loaded there on its first use, which is paid once: warm up before the recording '
                || 'begins.'
        when call is not null
            then 'Avoid this call within steps: keep what is allocated, load kernels beforehand. If it '
                || 'should be quick, look for a lock or a missing core.'
    end
