-- A row is one device with time bins in which it was busy less than the threshold low_utilisation_frac.
--
-- See idle_summary for the cause and utilisation_over_time for when. More work per launch (larger batches, BatchLoRA, torch.compile, CUDA graphs) or a faster CPU side (more data workers, fewer synchronisations).

select
    source_id,
    concat('device ', device_id) as place,
    sum(end_ns - start_ns - busy_ns) as cost_ns,
    count(*) as occurrence_cnt,
    format('{} of {} time bins, busy {:.0f} % of them', count(*), (select value::bigint from threshold where name = 'time_bin_cnt'),
        100 * sum(busy_ns) / sum(end_ns - start_ns)) as evidence
from utilisation_over_time
where busy_frac < (select value from threshold where name = 'low_utilisation_frac')
group by source_id, device_id
