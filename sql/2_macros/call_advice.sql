-- Macro call_advice(call, is_once, is_longest_long, is_torch): what to do about a call, not a launch, that the GPU
-- waits for.
--
-- is_once: of the gaps of its place the longest is most, or there are two at most. is_longest_long: that one takes a second or more.

create macro call_advice(call, is_once, is_longest_long, is_torch) as
    case
        when regexp_matches(call, 'ProfilerSt(art|op)')
            then 'A profiler begins or ends its recording there, which a run without it does not pay.'
        when regexp_matches(call, 'HostAlloc|HostRegister|MallocHost|HostMalloc')
            then 'Memory of the host is pinned there, which takes long: pin buffers once, before what counts, and keep them.'
        when regexp_matches(call, 'FreeHost|HostFree|HostUnregister')
            then 'Pinned memory of the host is given back there, which takes long: keep the buffers, and pin no new ones.'
        when regexp_matches(call, '(Malloc|Alloc|Free)(Async|FromPool)')
            then if(
                is_torch,
                'PyTorch''s pool (backend:cudaMallocAsync) keeps its memory already: leave out empty_cache(), leave memory free, or take '
                || 'its own allocator (backend:native). Other libraries set cudaMemPoolAttrReleaseThreshold.',
                'A pool gives its memory back at each synchronization unless it is told to keep it: set '
                || 'cudaMemPoolAttrReleaseThreshold, or allocate once.'
            )
        when is_once and is_longest_long
            then 'So long a call makes CUDA or a library ready, which is paid once: warm up before the recording begins.'
        when is_once and regexp_matches(call, '(?i)free|malloc')
            then 'Once, it is a library that makes itself ready (cuBLAS, cuDNN): warm up before the recording begins. In '
                || 'each step it is an allocator without a cache, or memory so full that it frees by itself.'
        when regexp_matches(call, '(?i)free|malloc|mem(create|release|map|unmap|setaccess|addressreserve)')
            then keep_memory_advice(is_torch)
        when regexp_matches(call, '(?i)((stream|event|ctx|blas\w*|dnn|solver\w*|sparse|fft|rand)create|createhandle)')
            then 'Streams, events and handles are made once, not in each step: '
                || if(is_once, 'warm up before the recording begins.', 'make them beforehand, and keep them.')
        when regexp_matches(call, 'MemGetInfo|DeviceProperties|GetAttribute')
            then 'The driver is asked there, of memory or of the device: ask it once, or every N steps.'
        when is_once and regexp_matches(call, 'Occupancy|(Func|Kernel)[GS]et|(Module|Library)(Get|Load)')
            then 'A kernel that is asked of for the first time is loaded, which is paid once: warm up before the recording '
                || 'begins.'
        when call is not null
            then 'Avoid this call within steps: keep what is allocated, load kernels beforehand. If it '
                || 'should be quick, look for a lock or a missing core.'
    end
