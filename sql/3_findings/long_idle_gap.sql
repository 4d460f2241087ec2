-- A row is one cause and range that ended idle gaps longer than the threshold long_gap_ns.
--
-- host: the CPU was late, so look at what it did before the launch (data loading, Python, a synchronisation). dependency: the work was launched and waited for another stream, an event or a copy.

select
    source_id,
    concat(cause, ': ', coalesce(path, '(no range)')) as place,
    sum(idle_ns) as cost_ns,
    count(*) as occurrence_cnt,
    format('{} gaps on device {}, the longest {:.3f} ms, ended by {}', count(*), device_id, max(idle_ns) / 1e6,
        left(arg_max(ended_by, idle_ns), 80)) as evidence
from idle_gap
where idle_ns > (select value from threshold where name = 'long_gap_ns')
group by source_id, device_id, cause, path
