-- The number of a thread as an event has it, or the one at the end of a text like 'stream 7'.

coalesce(whole_text(tid), try_cast(regexp_extract(tid, '(?:^|[^0-9./])(-?[0-9]+)$', 1) as bigint))
