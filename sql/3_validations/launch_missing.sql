-- A row is an input with GPU work whose launching call was not recorded.
--
-- It was launched before the window or the call was trimmed: it stays in every total and in unattributed, but belongs to no range. Start recording at a synchronized point. Pages of managed memory move without a call, and do not count.

select
    source_id,
    'warning' as severity,
    count(*) filter (launch_start_ns is null) as problem_cnt,
    format('{:.3f} ms of GPU work, {:.1f} % of all', sum(end_ns - start_ns) filter (launch_start_ns is null) / 1e6,
        100 * coalesce(sum(end_ns - start_ns) filter (launch_start_ns is null), 0) / greatest(sum(end_ns - start_ns), 1))
        as example
from gpu_op
where name_id not in (select name_id from name where moves_pages(text))
group by source_id
having problem_cnt > 0
