-- A row is one kind of memory (CUpti_ActivityMemoryKind), as nsys and torch.profiler print it.

select *
from (
    values
        (0, 'Pageable'),
        (1, 'Pinned'),
        (2, 'Device'),
        (3, 'Array'),
        (4, 'Managed'),
        (5, 'Device Static'),
        (6, 'Managed Static')
) as kind (memory_kind_id, memory_kind)
