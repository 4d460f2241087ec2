-- A row is a part of the windows of an input of which findings save more than it is.
--
-- Idle time, compute, copies and communication with nothing beside them, each the mean of the devices: what rules about a part
-- save together is never more. A wait may hide copies as well. A hundredth of the window is left for devices whose windows differ.
--
-- columns:
--   source_id   integer   the input
--   part        varchar   'idle', 'compute', 'copies' or 'communication'
--   saving_ns   double    what findings save of it
--   part_ns     double    how long it is

with
saved as (
    select source_id, part_of_rule(rule) as part, sum(saving_ns)::double as saving_ns
    from _predicted_finding
    where part_of_rule(rule) is not null
    group by all
),
device as (
    select
        source_id,
        avg(window_ns) as window_ns,
        avg(host_idle_ns + dependency_idle_ns) as idle_ns,
        avg(compute_ns) as compute_ns,
        avg(exposed_memory_ns) as copies_ns,
        avg(exposed_communication_ns) as communication_ns
    from steady_state
    group by source_id
)
select
    saved.source_id,
    saved.part,
    saved.saving_ns,
    case saved.part
        when 'idle' then device.idle_ns + device.copies_ns
        when 'compute' then device.compute_ns
        when 'copies' then device.copies_ns
        else device.communication_ns
    end as part_ns
from saved
join device using (source_id)
where saved.saving_ns > part_ns + device.window_ns / 100
