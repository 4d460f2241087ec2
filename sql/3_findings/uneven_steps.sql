-- A row is an input of five steps or more that a range or an optimizer shows, some slower than the median by more than uneven_step_frac, together by notable_frac of the time.
--
-- Look at the phases of the slow steps in step_summary: data loading, checkpoints and evaluation, garbage collection, lengths that differ, recompilation.

select
    source_id,
    any_value(path) as place,
    null::bigint as saving_ns,
    count(*) as occurrence_cnt,
    format('{} (step {}) {:.0f} % above the median', if(count(*) = 1, 'one step', count(*) || ' steps, the slowest'),
        arg_max(step, slower_frac), 100 * max(slower_frac))
    || format(', {}{} longer', if(count(*) = 1, '', 'together '), said_ns(sum(length_ns - length_ns / (1 + slower_frac)))) as evidence
from step_summary
join _steady_time as steady using (source_id)
semi join (select source_id from step_summary group by source_id having count(*) >= 5) as enough using (source_id)
where is_uneven
    and found_by <> 'period' -- what differs may be another layer
    and step_summary.start_ns >= coalesce(steady.first_step_ns, step_summary.start_ns)
group by source_id
having sum(length_ns - length_ns / (1 + slower_frac))
    >= (select value from threshold where name = 'notable_frac') * any_value(steady.end_ns - steady.start_ns)
