-- The whole number that a text is, as ids of processes, threads and streams are written; NULL for a fraction and other texts.

if(contains(label, '.'), if(try_cast(label as double) = trunc(try_cast(label as double)), try_cast(label as bigint), null),
    try_cast(label as bigint))
