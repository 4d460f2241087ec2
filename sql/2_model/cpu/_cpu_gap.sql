-- A row is a time longer than the threshold long_gap_ns within the steps of an input without GPU work in which no operator runs.
--
-- What of it the process fetches input in is one row, what it compiles or communicates in another (which other rules have), and
-- what lies between these is Python's. Of a backward in a file with the operators of one thread nobody knows what it is: torch
-- runs that of a GPU on a thread of its own, which is not recorded there. Between two nodes of a backward no Python runs but
-- hooks, so that the machine did something else there, as long as no stack says otherwise.
--
--     operators   [forward  ][backward ][opt]                    [forward
--     ranges      [---------------- step -----------]     [load ]
--     rows                                   [python_time][late ]
--
-- columns:
--   source_id   integer   the input
--   start_ns    bigint    begin
--   end_ns      bigint    end
--   rule        varchar   'late_input' or 'python_time', NULL where something was compiled or sent, and where nobody knows
--   of_ns       bigint    begin of the fetch that it is a piece of, as operators run in one; its own where nothing is fetched
--   path_id     bigint    name path of what fetches input, else of the innermost annotation around nine tenths of it, the step's
--                 left out; or NULL
--   before      varchar   the annotation that ended last before it, NULL without
--   behind      varchar   the one that begins first behind it, NULL without
--   frame       varchar   the innermost Python function around all of it, NULL where none is recorded
--   ended       varchar   the operator with whose end it begins, NULL without
--   begun       varchar   the one with whose start it ends, NULL without

with
stepping as (
    select
        step.source_id,
        own.process,
        arg_min(step.thread_id, step.start_ns) as thread_id,
        min(step.start_ns) as start_ns,
        max(step.end_ns) as end_ns
    from _step as step
    join _work_process as own on own.source_id = step.source_id and own.thread_id = step.thread_id
    join _steady_time as steady on steady.source_id = step.source_id
    where step.found_by <> 'period'
        and step.source_id not in (from _source_with_gpu)
        and step.source_id not in (from _accelerator_unread)  -- where the CPU may wait for that
        and step.source_id not in (from _cut_off)
        and step.source_id in (select source_id from _operator_time)  -- else nobody knows when none runs
        and step.start_ns >= coalesce(steady.first_step_ns, steady.start_ns)
    group by step.source_id, own.process
),
-- steps begin before the first operator in them, and end behind the last one
busy as (
    select source_id, process, start_ns, end_ns from merged('_operator_time')
    union all
    select source_id, process, unnest([start_ns, end_ns]) as time_ns, time_ns from stepping
),
gap as materialized (
    select until.source_id, until.process, until.end_ns as start_ns, until.next_ns as end_ns, stepping.thread_id
    from (
        select
            source_id,
            process,
            max(end_ns) over (in_order rows unbounded preceding) as end_ns,
            lead(start_ns) over in_order as next_ns
        from busy
        window in_order as (partition by source_id, process order by start_ns, end_ns)
    ) as until
    join stepping
        on stepping.source_id = until.source_id
        and stepping.process = until.process
        and until.end_ns >= stepping.start_ns
        and until.next_ns <= stepping.end_ns
    where until.next_ns - until.end_ns > (select value from threshold where name = 'long_gap_ns')
),
span as (
    select source_id, process, start_ns, end_ns, place as path_id, 'late_input' as what
    from merged('_data_range')
    where source_id not in (from _source_with_gpu)
    union all
    select source_id, process, start_ns, end_ns, null, 'compiled'
    from merged('_compiling')
    where source_id not in (from _source_with_gpu)
    union all
    select stepping.source_id, stepping.process, spent.start_ns, spent.end_ns, null, 'communication'
    from _cpu_activity as spent
    join stepping using (source_id)
    where spent.activity = 'communication'
),
-- what of a gap lies in spans, of those that overlap the first
held as (
    select
        gap.source_id,
        gap.thread_id,
        gap.start_ns as gap_start_ns,
        gap.end_ns as gap_end_ns,
        greatest(span.start_ns, gap.start_ns, coalesce(max(span.end_ns) over earlier, gap.start_ns)) as start_ns,
        least(span.end_ns, gap.end_ns) as end_ns,
        span.start_ns as of_ns,
        span.what,
        span.path_id
    from gap
    join span
        on span.source_id = gap.source_id
        and span.process = gap.process
        and span.start_ns < gap.end_ns
        and span.end_ns > gap.start_ns
    window earlier as (
        partition by gap.source_id, gap.thread_id, gap.start_ns order by span.start_ns, span.end_ns, span.what
        rows between unbounded preceding and 1 preceding
    )
),
between_spans as (
    select
        source_id,
        thread_id,
        end_ns as start_ns,
        lead(start_ns, 1, gap_end_ns) over (
            partition by source_id, thread_id, gap_start_ns order by start_ns, end_ns
        ) as end_ns
    from held
    where end_ns > start_ns
    union all
    select gap.source_id, gap.thread_id, gap.start_ns, coalesce(first.start_ns, gap.end_ns)
    from gap
    left join (
        select source_id, thread_id, gap_start_ns, min(start_ns) as start_ns from held group by all
    ) as first
        on first.source_id = gap.source_id and first.thread_id = gap.thread_id and first.gap_start_ns = gap.start_ns
),
piece as materialized (
    select *, (start_ns + end_ns) // 2 as middle_ns
    from (
        select source_id, thread_id, start_ns, end_ns, of_ns, what, path_id from held
        union all by name
        select source_id, thread_id, start_ns, end_ns, 'python_time' as what from between_spans
    )
    where end_ns - start_ns > (select value from threshold where name = 'long_gap_ns')
),
annotation as materialized (
    select range.*
    from range
    where range.kind = 'annotation'
        and range.thread_id in (select thread_id from gap)
        and range.range_id not in (select range_id from _step where range_id is not null)
        and range.range_id not in (from _around_step)
),
around as (
    select
        piece.source_id,
        piece.thread_id,
        piece.start_ns,
        arg_max(range.path_id, range.depth) filter (range.kind = 'annotation') as path_id,
        arg_max(name.text, range.depth) filter (range.kind = 'python') as frame
    from piece
    join range
        on range.source_id = piece.source_id
        and range.thread_id = piece.thread_id
        and range.start_ns < piece.end_ns
        and range.end_ns > piece.start_ns
    join name using (name_id)
    where piece.what = 'python_time'
        and if(
            range.kind = 'python',
            range.start_ns <= piece.start_ns and range.end_ns >= piece.end_ns,
            -- what follows the last operator of a range lasts until the first one behind it
            least(range.end_ns, piece.end_ns) - greatest(range.start_ns, piece.start_ns) >= 0.9 * (piece.end_ns - piece.start_ns)
                and range.range_id in (select range_id from annotation)
        )
    group by piece.source_id, piece.thread_id, piece.start_ns
),
edge as (
    select operator.source_id, operator.thread_id, operator.time_ns, operator.is_end, arg_max(operator.name_id, operator.ns) as name_id
    from (
        select source_id, thread_id, name_id, end_ns - start_ns as ns,
            unnest([start_ns, end_ns]) as time_ns, unnest([false, true]) as is_end
        from range
        where kind = 'operator' and thread_id in (select thread_id from piece)
    ) as operator
    semi join (select source_id, thread_id, unnest([start_ns, end_ns]) as time_ns from piece) as border
        using (source_id, thread_id, time_ns)
    group by all
),
-- a backward, and the modules whose nodes run in it
in_backward as (
    select distinct around.path_id
    from around
    join range_path as place using (path_id)
    join _phase_path as backward
        on backward.source_id = place.source_id and starts_with(place.path || '/', backward.path || '/')
    where backward.phase = 'backward'
),
alone as (
    select source_id
    from range
    where kind = 'operator'
    group by source_id
    having count(distinct thread_id) = 1
)
select
    piece.source_id,
    piece.start_ns,
    piece.end_ns,
    case
        when piece.what = 'late_input' then 'late_input'
        when piece.what = 'python_time' and not (
            coalesce(around.path_id in (from in_backward), false)
            and (
                piece.source_id in (from alone)
                or around.frame is null
                and coalesce(starts_with(ended_name.text, 'autograd::engine::') and starts_with(begun_name.text, 'autograd::engine::'), false)
            )
        ) then 'python_time'
    end as rule,
    if(piece.what = 'late_input', piece.of_ns, piece.start_ns) as of_ns,
    if(piece.what = 'late_input', piece.path_id, around.path_id) as path_id,
    before_name.text as before,
    behind_name.text as behind,
    around.frame,
    ended_name.text as ended,
    begun_name.text as begun
from piece
left join around using (source_id, thread_id, start_ns)
-- ranges end a little behind their last operator, and begin before their first
asof left join (select source_id, thread_id, end_ns, max(name_id) as name_id from annotation group by all) as before
    on before.source_id = piece.source_id and before.thread_id = piece.thread_id and before.end_ns <= piece.middle_ns
asof left join (select source_id, thread_id, start_ns, max(name_id) as name_id from annotation group by all) as behind
    on behind.source_id = piece.source_id and behind.thread_id = piece.thread_id and behind.start_ns >= piece.middle_ns
left join name as before_name on before_name.name_id = before.name_id
left join name as behind_name on behind_name.name_id = behind.name_id
left join edge as ended
    on ended.is_end and ended.source_id = piece.source_id and ended.thread_id = piece.thread_id and ended.time_ns = piece.start_ns
left join edge as begun
    on not begun.is_end and begun.source_id = piece.source_id and begun.thread_id = piece.thread_id and begun.time_ns = piece.end_ns
left join name as ended_name on ended_name.name_id = ended.name_id
left join name as begun_name on begun_name.name_id = begun.name_id
