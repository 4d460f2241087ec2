-- Updates steady_state: windows of devices have the waiting for later ranks, at most their exposed communication.

update steady_state as steady
set rank_wait_ns = least(late.waited_ns, steady.exposed_communication_ns)
from (
    select source_id, device_id, sum(waited_ns) as waited_ns
    from _late_rank_wait
    group by all
) as late
where late.source_id = steady.source_id and late.device_id = steady.device_id
