-- A row is one of the 5,000 largest blocks of a device's memory, as the page stacks them: the lowest first.
--
-- What was there before the recording lies below, that which stays longest at the bottom, then by category and size;
-- on it all others in the order of their allocation. Of blocks of one size those that live longest are among the 5,000.
--
-- columns:
--   source_id    integer   the input
--   process_id   bigint    the process, NULL if not recorded
--   device       varchar   the device
--   place        bigint    place in the stack, from 1; a block lies on all with a lower place that are live with it
--   start_ns     bigint    when it was allocated, on the clock of the input; NULL: before the recording
--   free_ns      bigint    when it was freed; NULL: not within the recording
--   bytes        bigint    size
--   category     varchar   what it is for, see memory_by_category
--   name         varchar   what a run's ledger calls it, NULL if not recorded
--   adapter      varchar   the adapter that it belongs to, NULL for the base
--   path         varchar   path of the innermost annotation that was open when it was allocated, NULL without
--   stack        varchar   the Python frames that asked for it, innermost first, NULL if not recorded

with
largest as (
    select *
    from _memory_block
    qualify row_number() over (
        partition by source_id, process_id, device
        order by bytes desc, free_ns - start_ns desc nulls first, start_ns nulls first, free_ns nulls first, allocation_id
    ) <= 5000
),
adapter_path as (
    select path_id, any_value(adapter) as adapter
    from _lora_path
    where adapter is not null
    group by path_id
)
select
    largest.source_id,
    largest.process_id,
    largest.device,
    row_number() over (
        partition by largest.source_id, largest.process_id, largest.device
        order by
            start_ns nulls first, if(start_ns is null, free_ns, null) desc nulls first,
            if(start_ns is null, memory_category.number, null), if(start_ns is null, bytes, null) desc,
            allocation_id, largest.name, bytes
    ) as place,
    largest.start_ns,
    largest.free_ns,
    largest.bytes,
    largest.category,
    largest.name,
    coalesce(largest.adapter, adapter_path.adapter) as adapter,
    range_path.path,
    stack.text as stack
from largest
left join memory_category on memory_category.category = largest.category
left join adapter_path using (path_id)
left join range_path using (path_id)
left join name as stack on stack.name_id = largest.stack_id
