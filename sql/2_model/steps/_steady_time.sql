-- A row is an input and the time that its answer is about: its steps once they are warm, else all that was recorded.
--
-- Steps at the start that take more than 1.5 times the median are cold: what is loaded, chosen and compiled there is paid
-- once. Warm steps count where at least half of the kernels' time lies in them, and where there are cold ones or a
-- twentieth of the recorded time lies outside: what is loaded before the first step and written behind the last says
-- nothing of training. They begin when what was launched in cold ones has ended, and end when what was launched in them
-- has. Where half of the kernels' time lies in them and behind them, but not in them alone, all from the first warm one on
-- counts. Where that begins long before any GPU work (_lead), the device waits from its start on.
--
-- columns:
--   source_id       integer   the input
--   start_ns        bigint    begin
--   end_ns          bigint    end
--   recorded_ns     bigint    from the start of the first GPU work, or range (of a snapshot: event), to the end of the last; with lead_ns before it
--   lead_ns         bigint    how long the first step that counts lasts before any GPU work, 0 where that is not said (_lead)
--   is_steady       boolean   whether it is the warm steps
--   first_step_ns   bigint    begin of the first step that counts, NULL without steps
--   step_cnt        bigint    steps that count, of all processes; NULL without steps
--   cold_step_cnt   bigint    cold steps before them, 0 where they count
--   cold_ns         bigint    their length
--   has_rest        boolean   whether what follows the last step counts, too

with
work as (
    select source_id, min(start_ns) as start_ns, max(end_ns) as end_ns, sum(kernel_ns) as kernel_ns
    from _stream_work
    group by source_id
),
extent as (
    select source_id, start_ns, end_ns, coalesce(kernel_ns, 0) as kernel_ns
    from work
    union all
    select source_id, min(start_ns), max(end_ns), 0
    from (
        select source_id, start_ns, end_ns from range
        union all
        select source_id, time_ns, time_ns from memory_event semi join (from source where kind = 'snapshot' and is_timed) using (source_id)
    )
    where source_id not in (select source_id from work)
    group by source_id
),
counted as (
    select
        source_id,
        min(start_ns) filter (not is_cold) as start_ns,
        max(end_ns) as end_ns,
        count(*) as step_cnt,
        count(*) filter (is_cold) as cold_step_cnt,
        coalesce(sum(own_ns) filter (is_cold), 0) as cold_ns
    from _warm_step
    group by source_id
),
launched as (
    select
        gpu_op.source_id,
        min(gpu_op.start_ns) filter (is_since) as start_ns,
        max(gpu_op.end_ns) filter (not is_since) as before_end_ns,
        max(gpu_op.end_ns) filter (is_within) as end_ns,
        coalesce(sum(kernel_ns) filter (is_within), 0) as kernel_ns,
        coalesce(sum(kernel_ns) filter (is_since), 0) as since_kernel_ns
    from (
        select
            gpu_op.source_id,
            gpu_op.start_ns,
            gpu_op.end_ns,
            if(kind = 'memcpy' or kind = 'memset', 0, gpu_op.end_ns - gpu_op.start_ns) as kernel_ns,
            coalesce(gpu_op.launch_start_ns, gpu_op.start_ns) >= counted.start_ns as is_since,
            coalesce(gpu_op.launch_start_ns, gpu_op.start_ns) between counted.start_ns and counted.end_ns as is_within
        from gpu_op
        join counted using (source_id)
    ) as gpu_op
    group by gpu_op.source_id
),
steady as (
    select
        counted.*,
        coalesce(2 * launched.kernel_ns < extent.kernel_ns and counted.cold_step_cnt > 0, false) as has_rest,
        coalesce(lead.lead_ns, 0) as lead_ns,
        extent.end_ns - extent.start_ns + coalesce(lead.lead_ns, 0) as recorded_ns,
        greatest(
            counted.start_ns,
            extent.start_ns - coalesce(lead.lead_ns, 0),
            -- cold ones have left work on the device
            if(
                counted.cold_step_cnt > 0,
                least(coalesce(launched.before_end_ns, counted.start_ns), coalesce(launched.start_ns, counted.start_ns)),
                counted.start_ns
            )
        ) as since_ns,
        -- the last step's work is on the device for some time yet
        least(
            greatest(counted.end_ns, if(has_rest, extent.end_ns, coalesce(launched.end_ns, counted.end_ns))), extent.end_ns
        ) as until_ns,
        2 * if(has_rest, launched.since_kernel_ns, coalesce(launched.kernel_ns, 0)) >= extent.kernel_ns as has_most
    from counted
    join extent using (source_id)
    left join launched using (source_id)
    left join _lead as lead using (source_id)
),
judged as (
    select
        *,
        has_most and until_ns > since_ns and (cold_step_cnt > 0 or until_ns - since_ns < 0.95 * recorded_ns) as is_steady
    from steady
)
select
    extent.source_id,
    if(judged.is_steady, judged.since_ns, extent.start_ns - coalesce(judged.lead_ns, 0)) as start_ns,
    if(judged.is_steady, judged.until_ns, extent.end_ns) as end_ns,
    coalesce(judged.recorded_ns, extent.end_ns - extent.start_ns)::bigint as recorded_ns,
    coalesce(judged.lead_ns, 0)::bigint as lead_ns,
    coalesce(judged.is_steady, false) as is_steady,
    if(judged.is_steady, judged.start_ns, null) as first_step_ns,
    (judged.step_cnt - if(judged.is_steady, judged.cold_step_cnt, 0))::bigint as step_cnt,
    coalesce(if(judged.is_steady, judged.cold_step_cnt, 0), 0)::bigint as cold_step_cnt,
    coalesce(if(judged.is_steady, judged.cold_ns, 0), 0)::bigint as cold_ns,
    coalesce(judged.is_steady and judged.has_rest, false) as has_rest
from extent
left join judged using (source_id)
