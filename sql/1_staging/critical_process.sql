-- A row is a process by which GPU work is known, its main thread (or else the one with the most time), and from when until when its CPU was seen.
--
-- needs: api_call, range, reading, work_thread

select work_process_id, arg_max(thread_id, (is_main, time)) as main, min(start) as start, max("end") as "end"
from (
    select thread_id, sum(end_ns - start_ns) as time, min(start_ns) as start, max(end_ns) as "end"
    from (
        select thread_id, start_ns, end_ns
        from range
        semi join reading using (source_id)
        where kind <> 'python'
        union all
        select thread_id, start_ns, end_ns
        from api_call
        semi join reading using (source_id)
        where not is_duplicate
    )
    group by thread_id
)
join work_thread using (thread_id)
group by work_process_id
order by work_process_id
