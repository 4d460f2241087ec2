-- A row is one device and when, of the time that findings are about (_steady_time), it had its own first and last work;
-- from the start of the first step, where that lies long before any work.
--
-- columns:
--   source_id   integer   the input
--   device_id   integer   the device
--   start_ns    bigint    begin
--   end_ns      bigint    end

select
    op.source_id,
    op.device_id,
    if(
        any_value(steady.lead_ns) > 0, any_value(steady.start_ns), greatest(min(op.start_ns), any_value(steady.start_ns))
    ) as start_ns,
    least(max(op.end_ns), any_value(steady.end_ns)) as end_ns
from _stream_work as op
join _steady_time as steady using (source_id)
group by op.source_id, op.device_id
having greatest(min(op.start_ns), any_value(steady.start_ns)) < least(max(op.end_ns), any_value(steady.end_ns))
    or not any_value(steady.is_steady)
