-- A row is an input with launches, and what they cost the CPU.
--
-- columns:
--   source_id    integer   the input
--   launch_cnt   bigint    launching calls; of one that launches a graph its first operation counts
--   launch_ns    bigint    their time without what they waited (_call_wait)

select
    gpu_op.source_id,
    count(*) as launch_cnt,
    coalesce(sum(gpu_op.launch_end_ns - gpu_op.launch_start_ns - coalesce(wait.wait_ns, 0)), 0)::bigint as launch_ns
from gpu_op
left join _call_wait as wait using (api_call_id)
where gpu_op.is_first_op
group by gpu_op.source_id
