-- The name of a CUDA call without the version of its API: cudaLaunchKernel_v7000, cudaGraphLaunch_v10000. A `_v2` is part of
-- the name.

regexp_replace(value, '_v[0-9]{4,5}$', '')
