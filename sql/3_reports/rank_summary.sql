-- A row is one input, one rank of a distributed job: its steps and what its devices did, beside the other ranks.
--
-- Times of the devices are lengths of unions over the whole window, devices added up, as in gpu_timeline_summary. Of ranks on
-- CPUs they are those of all threads together: operators compute, gloo communicates (in pipelines of `lorabench collect` the
-- ranges send and recv), all else is idle.
--
-- Inputs of one kind are compared, ranks with ranks: an input without a rank beside those of ranks (a report of all
-- processes of a run, which has the steps of each) is not compared. A pass of a rank that recorded memory beside another that
-- did not has no row.
--
-- columns:
--   rank                       integer   rank of the input, NULL if not recorded
--   name                       varchar   the file
--   step_cnt                   bigint    steps, those of adapters in turn counted as one (step_statistics)
--   step_ns                    bigint    median duration of a step, NULL without steps
--   max_step_ns                bigint    duration of the longest
--   slower_frac                double    step_ns / the median of the ranks - 1; NULL for an input that is not compared
--   window_ns                  bigint    from the first GPU work to the end of the last, on CPUs from the first of either; NULL without any
--   busy_ns                    bigint    time with any work
--   compute_ns                 bigint    time with compute
--   communication_ns           bigint    time with communication
--   exposed_communication_ns   bigint    time with communication and without compute
--   idle_ns                    bigint    time with no work
--   kernel_cnt                 bigint    kernels
--   kernel_ns                  bigint    their summed duration
--   compute_frac               double    compute_ns / the mean of the ranks (of those that fit together): how evenly work is spread; NULL likewise
--   straggler_cnt              bigint    steps in which it was the straggler, see straggler
--   kept_waiting_ns            bigint    time that other ranks waited for it in those
--   source_id                  integer   the input, see trace_info

with
step as (
    select source_id, step_cnt, p50_ns::bigint as step_ns, max_ns as max_step_ns
    from step_statistics
),
timeline as (
    select source_id, sum(window_ns) as window_ns, sum(busy_ns) as busy_ns, sum(compute_ns) as compute_ns,
        sum(communication_ns) as communication_ns, sum(exposed_communication_ns) as exposed_communication_ns,
        sum(idle_ns) as idle_ns
    from gpu_timeline_summary
    group by source_id
    union all
    select source_id, window_ns, busy_ns, compute_ns, communication_ns, exposed_communication_ns, idle_ns
    from _cpu_timeline
),
late as (
    select source_id, count(*) as straggler_cnt, sum(kept_waiting_ns) as kept_waiting_ns
    from straggler
    where is_straggler
    group by source_id
)
select
    source.rank,
    source.name,
    coalesce(step.step_cnt, 0) as step_cnt,
    step.step_ns,
    step.max_step_ns,
    if(
        is_compared,
        step.step_ns / nullif(median(step.step_ns) over of_kind, 0) - 1, null
    ) as slower_frac,
    timeline.window_ns::bigint as window_ns,
    timeline.busy_ns::bigint as busy_ns,
    timeline.compute_ns::bigint as compute_ns,
    timeline.communication_ns::bigint as communication_ns,
    timeline.exposed_communication_ns::bigint as exposed_communication_ns,
    timeline.idle_ns::bigint as idle_ns,
    coalesce(kernel.kernel_cnt, 0) as kernel_cnt,
    coalesce(kernel.kernel_ns, 0)::bigint as kernel_ns,
    if(
        is_compared,
        timeline.compute_ns / nullif(avg(timeline.compute_ns) over of_kind, 0), null
    ) as compute_frac,
    coalesce(late.straggler_cnt, 0) as straggler_cnt,
    coalesce(late.kept_waiting_ns, 0)::bigint as kept_waiting_ns,
    source.source_id
from (
    select
        *,
        (rank is not null or count(rank) over () = 0)
            and source_id not in (select source_id from _rank_problem where is_left_out) as is_compared
    from source
    where kind is not null and source_id not in (from _memory_pass)
) as source
left join step on step.source_id = source.source_id
left join timeline on timeline.source_id = source.source_id
left join _kernel_total as kernel on kernel.source_id = source.source_id
left join late on late.source_id = source.source_id
window of_kind as (partition by source.kind, source.is_compared)
order by source.rank, source.source_id
