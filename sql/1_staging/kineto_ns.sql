-- Nanoseconds of a time in microseconds. Integer and fraction are converted apart, because a double of nanoseconds since
-- 1970 has no room for the last digits.

floor(us)::bigint * 1000 + round((us - floor(us)) * 1000)::bigint
