-- A row is an input with more calls that launch kernels than kernels that such calls launched: some have none.
--
-- A cheap question before that of which (_dropped_launch).
--
-- columns:
--   source_id     integer   the input
--   launch_cnt    bigint    calls that launch a kernel

with
called as (
    select source_id, count(*) as launch_cnt
    from api_call
    where not is_duplicate and name_id in (select name_id from name where launches_kernels(text))
    group by source_id
),
-- those of graphs are launched by other calls
ran as (
    select source_id, count(*) as kernel_cnt
    from gpu_op
    where is_first_op and kind = 'kernel' and graph_node_id is null and api_call_id is not null
    group by source_id
)
select source_id, called.launch_cnt
from called
join ran using (source_id)
where called.launch_cnt > ran.kernel_cnt
