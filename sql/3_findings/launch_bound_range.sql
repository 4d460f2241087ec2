-- A row is one range that spent more CPU time in launching its own kernels than these ran.
--
-- The GPU waits for the CPU here. Fewer and larger kernels: torch.compile, CUDA graphs, fused operators, BatchLoRA instead of switching adapters.

select
    source_id,
    path as place,
    self_launch_api_ns - self_kernel_ns as cost_ns,
    self_launch_cnt as occurrence_cnt,
    format('{} launches took {:.3f} ms, their kernels ran {:.3f} ms', self_launch_cnt, self_launch_api_ns / 1e6,
        self_kernel_ns / 1e6) as evidence
from range_summary
where self_kernel_cnt > 0 and self_launch_api_ns > self_kernel_ns
