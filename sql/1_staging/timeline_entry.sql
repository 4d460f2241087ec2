-- A row is an entry of torch's memory timeline: time, action, bytes and category as numbers.
--
-- Through DuckDB, which spills what does not fit: gzip makes millions of entries of some kilobytes.
--
-- given: the file and the most rows as values

select entry
from read_json(?, format = 'array', records = false, columns = {entry: 'bigint[]'}, compression = 'gzip')
limit ?
