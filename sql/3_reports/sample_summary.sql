-- A row is one function in which nsys found the CPU when it sampled it (nsys profile --sample): how often, and how often the GPU waited meanwhile.
--
-- Samples are taken of running threads, some hundred to some thousand a second: what waits has none. A sample counts once in sample_cnt,
-- for the function that ran, and once in stack_cnt for each function on its stack. Samples in code without symbols are
-- those of its library. A GPU waits for a thread in idle time of cause 'host' that ends with work which the thread launches: that of
-- idle_gap, and that before its first work.
--
-- columns:
--   function         varchar   the function, NULL where nsys found no symbol
--   module           varchar   file name of its library or program, NULL if not recorded
--   sample_cnt       bigint    samples in the function itself
--   sample_frac      double    sample_cnt as a fraction of all samples of the input
--   stack_cnt        bigint    samples in it or in what it calls
--   stack_frac       double    stack_cnt as a fraction of the same
--   late_cnt         bigint    samples in the function itself while a GPU waited for the thread
--   late_stack_cnt   bigint    the same in it or in what it calls
--   late_stack_frac  double    late_stack_cnt as a fraction of all samples while a GPU waited for their thread, NULL without any
--   source_id        integer   the input, see trace_info
--   rank             integer   rank of the input, NULL if not recorded

with
-- where gaps of several devices overlap, up to the end of what has begun
gap as (
    select
        gap.source_id,
        launch.thread_id,
        gap.start_ns,
        max(gap.end_ns) over (partition by gap.source_id, launch.thread_id order by gap.start_ns) as end_ns
    from _gap as gap
    join gpu_op as op using (gpu_op_id)
    join api_call as launch using (api_call_id)
    where gap.cause = 'host'
),
-- a function once, however often it is on the stack
visited as (
    select
        source_id,
        sample_id,
        any_value(thread_id) as thread_id,
        any_value(start_ns) as start_ns,
        name_id,
        module_id,
        min(depth) = 0 as is_running
    from sampled_frame
    group by source_id, sample_id, name_id, module_id
),
judged as (
    select visited.*, coalesce(visited.start_ns < gap.end_ns, false) as is_late
    from visited
    asof left join gap
        on gap.source_id = visited.source_id and gap.thread_id = visited.thread_id and gap.start_ns <= visited.start_ns
),
whole as (
    select source_id, count(*) as sample_cnt, nullif(count(*) filter (is_late), 0) as late_cnt
    from judged
    where is_running
    group by source_id
)
select
    name.text as function,
    file_name(module.text) as module,
    count(*) filter (judged.is_running) as sample_cnt,
    count(*) filter (judged.is_running) / any_value(whole.sample_cnt) as sample_frac,
    count(*) as stack_cnt,
    count(*) / any_value(whole.sample_cnt) as stack_frac,
    count(*) filter (judged.is_running and judged.is_late) as late_cnt,
    count(*) filter (judged.is_late) as late_stack_cnt,
    count(*) filter (judged.is_late) / any_value(whole.late_cnt) as late_stack_frac,
    judged.source_id,
    any_value(source.rank) as rank
from judged
join source using (source_id)
join whole using (source_id)
left join name on name.name_id = judged.name_id
left join name as module on module.name_id = judged.module_id
group by judged.source_id, judged.name_id, name.text, judged.module_id, module.text
order by judged.source_id, sample_cnt desc, stack_cnt desc, function, module
