-- A row is a name of a machine that ranks with different clocks give: several machines have this name, or a rank is of another run.
--
-- Each rank is given a clock of its own (clock_offset). If several machines have this name, all is right but less exact, and
-- effects of machines are mixed; leave out a rank of another run, whose offset there is that between the runs.

select
    min(clock.source_id) as source_id,
    'warning' as severity,
    count(distinct clock.clock_id) as problem_cnt,
    format(
        '{}: its {} ranks have {} clocks', source.host, count(distinct clock.source_id), count(distinct clock.clock_id)
    ) as example
from clock
join source using (source_id)
where source.host is not null
group by source.host, source.kind
having count(distinct clock.clock_id) > 1
