-- A row is one kernel that ran often, and shorter on average than both its launch and the threshold short_kernel_ns.
--
-- Launching costs more than running. CUDA graphs (torch.cuda.graphs, torch.compile(mode="reduce-overhead")) launch many at once; fused or foreach operators need fewer.

select
    source_id,
    kernel_name as place,
    sum(launch_api_ns - gpu_op_ns) as cost_ns,
    sum(gpu_op_cnt) as occurrence_cnt,
    format('{} kernels of {:.1f} us, launched in {:.1f} us each', sum(gpu_op_cnt), sum(gpu_op_ns) / sum(gpu_op_cnt) / 1e3,
        sum(launch_api_ns) / sum(launch_cnt) / 1e3) as evidence
from launch_summary
where kind = 'kernel' and launch_cnt > 0
group by source_id, kernel_name
having sum(gpu_op_cnt) >= 100
    and sum(gpu_op_ns) / sum(gpu_op_cnt) < (select value from threshold where name = 'short_kernel_ns')
    and sum(launch_api_ns) > sum(gpu_op_ns)
