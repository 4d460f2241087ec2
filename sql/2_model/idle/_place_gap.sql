-- A row is an idle gap of a place that costs much (_costly_place).
--
-- A gap behind a wait is one of the place that waits, and one of the place that launches (host_work). There are as many as
-- operations: they carry numbers alone.
--
-- columns:
--   number       bigint    number of the place
--   start_ns     bigint    begin of the gap
--   end_ns       bigint    end
--   gpu_op_id    bigint    the operation that ended it

with
path as (
    select place.number, place.source_id, place.rule, range_path.path_id
    from _costly_place as place
    left join range_path on range_path.path = place.place
)
select path.number, gap.start_ns, gap.end_ns, gap.gpu_op_id
from _judged_gap as gap
join path on path.source_id = gap.source_id and path.rule = gap.rule and path.path_id is not distinct from gap.path_id
where path.rule <> 'host_work'
union all
select path.number, gap.start_ns, gap.end_ns, gap.gpu_op_id
from _judged_gap as gap
join gpu_op using (gpu_op_id)
left join range using (range_id)
join path on path.source_id = gap.source_id and path.rule = 'host_work' and path.path_id is not distinct from range.path_id
where gap.rule in ('blocking_copy', 'pageable_async_copy', 'synchronisation') and gap.cause = 'host'
