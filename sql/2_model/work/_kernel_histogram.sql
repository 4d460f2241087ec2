-- A row is how many executions of a kernel of an input were about equally long: counts that add up over inputs.
--
-- columns:
--   source_id     integer   the input
--   kernel_name   varchar   the kernel
--   bin           integer   floor(50 ln ns), so its borders are 2 % apart and its middle is within 1 % of all in it
--   kernel_cnt    bigint    executions

select
    gpu_op.source_id,
    name.text as kernel_name,
    floor(50 * ln(greatest(gpu_op.end_ns - gpu_op.start_ns, 1)))::integer as bin,
    count(*) as kernel_cnt
from gpu_op
join name using (name_id)
where gpu_op.kind = 'kernel'
group by all
