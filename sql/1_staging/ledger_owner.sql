-- A row is what the ledger of a memory pass says of an allocation: a row of memory_owner.
--
-- needs: source
-- given: categories (that are known), types (of the file's columns); the file and the source as values

select
    source_id,
    time_ns - origin_ns,
    device,
    address,
    bytes,
    category,
    nullif(name, ''),
    nullif(adapter, ''),
    is_before,
    true
from read_csv(?, header = true, auto_detect = false, columns = $types)
cross join (select source_id, coalesce(origin_ns, 0) as origin_ns from source where source_id = ?) as own
where category in $categories
