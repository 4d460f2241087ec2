-- A row is a synchronization whose call CUPTI did not record, as that call, if it lasts longer than long_gap_ns.
--
-- Of the threads of its process that called nothing meanwhile it is on the one with the most calls; without one it is
-- left out.
--
-- needs: reading, staged_api_call, staged_name, sync, threshold

with
lost as (
    select
        source_id,
        process_id,
        correlation_id,
        start_ns,
        end_ns,
        case kind
            when 'event' then 'cudaEventSynchronize' when 'stream' then 'cudaStreamSynchronize' else 'cudaDeviceSynchronize'
        end as api_name
    from sync
    semi join reading using (source_id)
    where kind in ('event', 'stream', 'context')
        and correlation_id is not null
        and end_ns - start_ns > (select value from threshold where name = 'long_gap_ns')
        and (process_id, correlation_id) not in (
            select (thread_id & ~16777215, correlation_id) from staged_api_call
            where correlation_id in (select correlation_id from sync semi join reading using (source_id))
        )
),
thread as (
    select thread_id, thread_id & ~16777215 as process_id, count(*) as call_cnt
    from staged_api_call
    where exists (from lost)
    group by thread_id
),
asked as (
    select lost.*, thread.thread_id, thread.call_cnt
    from lost
    join thread on thread.process_id = lost.process_id
),
called as (
    select asked.*
    from asked
    asof left join (select thread_id, start_ns, end_ns from staged_api_call where exists (from lost)) as call
        on call.thread_id = asked.thread_id and call.start_ns < asked.end_ns
    where coalesce(call.end_ns <= asked.start_ns, true)
)
select
    called.source_id,
    called.thread_id,
    called.correlation_id,
    staged_name.name_id,
    called.start_ns,
    called.end_ns
from called
join staged_name on staged_name.text = called.api_name
qualify row_number() over (
    partition by called.process_id, called.correlation_id, called.start_ns order by called.call_cnt desc, called.thread_id
) = 1
