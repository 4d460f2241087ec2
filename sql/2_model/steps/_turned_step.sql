-- A row is a row of step_summary and the turn that it is a part of: those of one number that follow one another in a process
-- (adapters in turn) are one.
--
-- Where adapters are trained one after another (peft_mode 'seq') all of one number are one.
--
-- columns:
--   step                 bigint    its number, counted from 1 on where none is said
--   found_by             varchar   how it was found, see step_summary
--   length_ns            bigint    how long it takes, until the next one begins or the GPU is done with it, see step_summary
--   wall_ns              bigint    its own duration on the CPU
--   between_ns           bigint    time on the CPU between its end and the start of the next one, NULL where none follows
--   data_ns              bigint    wall time of fetching input inside it, NULL where nothing says
--   h2d_ns               bigint    of copying input to the device, NULL likewise
--   forward_ns           bigint    of the forward, NULL likewise
--   backward_ns          bigint    of the backward, NULL likewise
--   optimizer_ns         bigint    of the optimizer, NULL likewise
--   launch_cnt           bigint    launching calls of its GPU work
--   launch_api_ns        bigint    their summed duration
--   launch_wait_ns       bigint    how much of it they waited for the GPU
--   kernel_cnt           bigint    kernels
--   kernel_ns            bigint    their summed duration
--   gpu_busy_ns          bigint    time in which its GPU work ran, per device, added up
--   launch_overhead_ns   bigint    time of the step in which none of its GPU work ran, NULL if no GPU work was recorded
--   token_cnt            bigint    tokens of the step of all adapters, NULL where not known
--   slower_frac          double    length_ns / median of the input's steps - 1
--   is_uneven            boolean   whether slower_frac is above the threshold
--   path                 varchar   name path of the step, NULL where no range is the step
--   start_ns             bigint    begin
--   range_id             bigint    the range that is the step, NULL where none is
--   source_id            integer   the input
--   rank                 integer   rank of the input, NULL if not recorded
--   is_beside            boolean   whether it does not count when steps are counted: it is the step of another process than the
--         one with the most, or of another thread at the time of the one before
--   turn_id              bigint    place of its turn among the input's turns, from 1

with
placed as (
    select summary.*, coalesce(own.process, 0) as process
    from step_summary as summary
    join _step as step
        on step.source_id = summary.source_id
        and step.start_ns = summary.start_ns
        and step.step is not distinct from summary.step
        and step.range_id is not distinct from summary.range_id
    left join _work_process as own on own.source_id = step.source_id and own.thread_id = step.thread_id
),
next as (
    select
        *,
        step is distinct from lag(step) over in_order as is_next,
        coalesce(step = lag(step) over in_order and start_ns < lag(start_ns + wall_ns) over in_order, false) as is_at_once
    from placed
    window in_order as (partition by source_id, process order by start_ns, range_id)
),
turned as (
    select
        * exclude (is_next),
        sum((is_next or is_at_once)::integer) over (partition by source_id, process order by start_ns, range_id) as turn
    from next
),
main as (
    select source_id, arg_min(process, (-turn_cnt, process)) as process
    from (select source_id, process, max(turn) as turn_cnt from turned group by all)
    group by source_id
),
begun as (
    select *, min(start_ns) over (partition by source_id, process, turn) as turn_ns
    from turned
)
select
    begun.* exclude (process, turn, turn_ns, is_at_once),
    begun.is_at_once or begun.process is distinct from main.process as is_beside,
    if(
        source_id in (select source_id from _run_facts where said['peft_mode'] = 'seq'),
        dense_rank() over (partition by source_id order by begun.step),
        dense_rank() over (partition by source_id order by begun.turn_ns, begun.process, begun.turn)
    )::bigint as turn_id
from begun
join main using (source_id)
