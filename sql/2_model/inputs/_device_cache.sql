-- A row is the last cache of one kind of GPU, by its vendor's data sheet.
--
-- Patterns exclude each other; of a device that none matches nothing is known to be cached.
--
-- columns:
--   pattern       varchar   regular expression that names of such devices match
--   cache_bytes   integer   size of the cache

select pattern, cache_bytes
from (
    values
    ('\b(G?H200|H100)\b', 50 * 1048576), ('\bG?B200\b', 126 * 1048576), ('\bA100\b', 40 * 1048576),
    ('\bA10G?\b|\bA40\b|\bA6000\b|\bRTX 3090\b', 6 * 1048576), ('\bA30\b', 24 * 1048576), ('\bL40S?\b', 96 * 1048576),
    ('\bL4\b', 48 * 1048576), ('\bRTX 5090\b', 96 * 1048576), ('\bRTX 4090\b', 72 * 1048576),
    ('\bV100\b', 6 * 1048576), ('\bT4\b', 4 * 1048576), ('\bMI300X\b', 256 * 1048576), ('\bMI250\b', 8 * 1048576)
) as caches(pattern, cache_bytes)
