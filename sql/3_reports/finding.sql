-- A row is something that costs time and can be changed: what, where, how much, how it is known, what to do.
--
-- Costliest first. The rules are the files of sql/3_findings; each looks at one report. Costs are times that the report
-- measured, of the CPU or of a device, and may overlap: they are not to be added up. Severity is by the share of the
-- input's GPU window (or, without GPU work, of its ranges): high from the threshold severe_frac, medium from notable_frac.
--
-- columns:
--   rule             varchar   name of the rule
--   severity         varchar   'high', 'medium' or 'low'
--   place            varchar   the range, kernel, device or cause that it is about, NULL outside all ranges
--   cost_ns          bigint    time that it cost
--   cost_frac        double    cost_ns as a fraction of the window
--   occurrence_cnt   bigint    how often
--   evidence         varchar   what was seen
--   advice           varchar   what to do
--   source_id        integer   the input, see trace_info
--   rank             integer   rank of the input, NULL if not recorded

with
gpu_extent as (
    select source_id, max(end_ns) - min(start_ns) as window_ns
    from gpu_op
    group by source_id
),
range_extent as (
    select source_id, max(end_ns) - min(start_ns) as window_ns
    from range
    group by source_id
),
measured as (
    select _finding.*, cost_ns / nullif(coalesce(gpu_extent.window_ns, range_extent.window_ns), 0) as cost_frac
    from _finding
    left join gpu_extent using (source_id)
    left join range_extent using (source_id)
)
select
    measured.rule,
    case
        when measured.cost_frac >= (select value from threshold where name = 'severe_frac') then 'high'
        when measured.cost_frac >= (select value from threshold where name = 'notable_frac') then 'medium'
        else 'low'
    end as severity,
    measured.place,
    measured.cost_ns::bigint as cost_ns,
    measured.cost_frac,
    measured.occurrence_cnt::bigint as occurrence_cnt,
    measured.evidence,
    measured.advice,
    measured.source_id,
    source.rank
from measured
join source on source.source_id = measured.source_id
where measured.cost_ns > 0
    and coalesce(measured.cost_frac >= (select value from threshold where name = 'least_frac'), true)
order by measured.cost_ns desc, measured.rule, measured.place, measured.source_id
