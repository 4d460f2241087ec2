-- A row is a range that does not lie within its parent, or whose depth is not one more than its parent's.

select child.range_id, child.parent_id
from range as child
join range as parent on parent.range_id = child.parent_id
where child.start_ns < parent.start_ns
    or child.end_ns > parent.end_ns
    or child.depth <> parent.depth + 1
    or child.source_id <> parent.source_id
