-- A row is a place within the steps of an input without GPU work where no operator runs for long.
--
-- Look at your own Python there: logging, metrics, saving, checks, waiting for something. Ranges (lorabench.span) or Python's stacks (collect --with-stack) name it.
--
-- Without torch: Look at what the program does there: logging, saving, waiting for something.
--
-- Only with: from _cpu_gap_place where rule = 'python_time'
select
    source_id,
    place,
    saving_ns,
    occurrence_cnt,
    'no operator runs ' || lengths || coalesce('; in the longest Python is in ' || frame, if(occurrence_cnt = 1, ', ', '; the longest ') || operators, '')
        as evidence,
    if(
        occurrence_cnt = 1,
        'It is there once: if your program does nothing there but once (saving, logging), garbage was collected or the machine '
        || 'ran something else.',
        null
    ) as advice
from _cpu_gap_place
where rule = 'python_time'
