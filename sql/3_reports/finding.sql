-- A row is something that can be changed: what, where, what it would save at most, how it is known, what to do.
--
-- Rules as the answer has them, by what all their places save together, and of each the places that save most first. saving_ns is what all steps are shorter by when the trace is replayed with the advice followed
-- in all places of the rule (each place has its share), and never more than a limit that no change can exceed: the idle
-- time that is blamed on the rule, the time in which copies or communication run with nothing beside them, or what
-- faster kernels take off the critical path; the mean over the devices. Where the advice cannot be replayed it is the
-- limit itself (is_predicted says which), and so it is where the advice is to find out what the CPU does. Where the clocks of CPU and GPU disagree (see validation) rules about idle time
-- have no rows, and nothing is replayed. Each idle nanosecond is blamed once (_blamed_gap), so idle time, exposed time
-- and what rules blame agree. NULL is a finding whose cost lies within those of others. What is paid once, before steps
-- are warm and outside of them, is no finding: see steady_state. Places that save less than the threshold least_frac have
-- no row; the answer counts what they save to their rule. Severity is by the share of that time: high from the
-- threshold severe_frac, medium from notable_frac; where the saving is not known high for what is not recorded, and medium for a
-- kernel that dominates. The rules are the files of sql/3_findings.
--
-- columns:
--   rule             varchar   name of the rule
--   severity         varchar   'high', 'medium' or 'low'
--   place            varchar   the range, kernel, device or cause that it is about, NULL outside all ranges
--   saving_ns        bigint    what a change would save
--   saving_frac      double    saving_ns as a fraction of the steady state, the mean of its devices'
--   is_predicted     boolean   true where saving_ns is by replay of the advice, false where it is a limit
--   occurrence_cnt   bigint    how often
--   evidence         varchar   what was seen
--   advice           varchar   what to do
--   source_id        integer   the input, see trace_info
--   rank             integer   rank of the input, NULL if not recorded

with
measured as (
    select
        predicted.*,
        predicted.saving_ns / nullif(mean.window_ns, 0) as saving_frac,
        sum(predicted.saving_ns) over (partition by predicted.source_id, predicted.rule) as rule_ns
    from _predicted_finding as predicted
    left join _mean_window as mean using (source_id)
)
select
    measured.rule,
    severity_of(measured.rule, measured.saving_frac) as severity,
    measured.place,
    measured.saving_ns::bigint as saving_ns,
    measured.saving_frac,
    measured.is_predicted,
    measured.occurrence_cnt::bigint as occurrence_cnt,
    measured.evidence,
    measured.advice,
    measured.source_id,
    source.rank
from measured
join source on source.source_id = measured.source_id
where coalesce(measured.saving_ns > 0, true)
    and coalesce(measured.saving_frac >= (select value from threshold where name = 'least_frac'), true)
order by
    starts_with(measured.rule, 'unrecorded') desc,
    measured.rule_ns desc nulls last,
    measured.rule,
    measured.source_id,
    measured.saving_ns desc nulls last,
    measured.place
