-- A row is one sample of a device's counters: the time that it stands for, and what is of interest in it.
--
-- A sample holds until the next one. After the last, and where samples are missing, it holds as long as most do.
--
-- columns:
--   source_id       integer   the input
--   device_id       integer   the device
--   window_id       bigint    number of the sample within its device, from 0
--   start_ns        bigint    begin of its time
--   end_ns          bigint    end of its time
--   sm_active       double    fraction of the multiprocessors' time with work on them, NULL without such a counter
--   sm_issue        double    fraction of their cycles in which they issue an instruction, likewise
--   tensor_active   double    fraction of their cycles in which their tensor cores are at work, likewise
--   dram_read       double    fraction of the memory's bandwidth that reads take, likewise
--   dram_write      double    fraction of the memory's bandwidth that writes take, likewise

with
measure as (
    select name_id, measured_by(text) as measure
    from name
    where name_id in (select name_id from gpu_metric_sample)
),
sample as (
    select
        one.source_id,
        one.device_id,
        one.start_ns,
        max(one.value) filter (measure.measure = 'sm_active') as sm_active,
        max(one.value) filter (measure.measure = 'sm_issue') as sm_issue,
        max(one.value) filter (measure.measure = 'tensor_active') as tensor_active,
        max(one.value) filter (measure.measure = 'dram_read') as dram_read,
        max(one.value) filter (measure.measure = 'dram_write') as dram_write
    from gpu_metric_sample as one
    join measure using (name_id)
    group by one.source_id, one.device_id, one.start_ns
),
spaced as (
    select
        *,
        lead(start_ns) over device - start_ns as length_ns,
        row_number() over device - 1 as window_id
    from sample
    window device as (partition by source_id, device_id order by start_ns)
),
usual as (
    select source_id, device_id, median(length_ns)::bigint as length_ns
    from spaced
    group by source_id, device_id
)
select
    spaced.source_id,
    spaced.device_id,
    spaced.window_id,
    spaced.start_ns,
    spaced.start_ns + if(spaced.length_ns <= 2 * usual.length_ns, spaced.length_ns, coalesce(usual.length_ns, 0)) as end_ns,
    spaced.sm_active,
    spaced.sm_issue,
    spaced.tensor_active,
    spaced.dram_read,
    spaced.dram_write
from spaced
join usual using (source_id, device_id)
