-- A row is an input of which something shows that torch ran in it.
--
-- torch.profiler and torch's allocator record nothing else. In a report of nsys torch's kernels, libraries and ranges
-- have names of their own, and so have those that its compiler makes.
--
-- columns:
--   source_id   integer   the input
with shown as materialized (
    select name_id
    from name
    where regexp_matches(
        text,
        '\bat::(native|cuda|_)|at_cuda_detail|\bc10::|^aten::|triton_(poi|per|red|tem)_|^ProfilerStep#|(?i:torch|autograd)'
    )
)
select source_id from source where kind_is_of_torch(kind)
union
select source_id from range_path join shown using (name_id)
union
select source_id from gpu_op join shown using (name_id)
