-- A row is an input and what its findings are set against: the window of its GPU work, without any that of its ranges.

select source_id, max(end_ns) - min(start_ns) as window_ns
from gpu_op
group by source_id
union all
select source_id, max(end_ns) - min(start_ns)
from range
where source_id not in (select source_id from gpu_op)
group by source_id
