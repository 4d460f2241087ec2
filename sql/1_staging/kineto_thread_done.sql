-- A row is one CPU thread of the trace with its name.
--
-- needs: kineto_label, kineto_thread, reading

select
    reading.source_id,
    kineto_thread.thread_id,
    coalesce(kineto_thread.pid, -1) as process_id,
    kineto_thread.pid,
    kineto_thread.tid,
    label.name
from kineto_thread
cross join reading
left join (
    select pid, tid, any_value(label) as name
    from kineto_label
    where what = 'thread_name'
    group by pid, tid
) as label
    on label.pid is not distinct from kineto_thread.pid and label.tid is not distinct from kineto_thread.tid
