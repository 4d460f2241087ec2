-- A row is a reason why inputs do not belong together as ranks of one job: a rule of validation.
--
-- columns:
--   rule        varchar   the rule
--   input_cnt   bigint    inputs that break it
--   example     varchar   what is wrong with the first of them

select
    rule,
    count(*) as input_cnt,
    any_value(if(rule in ('other_job', 'clock_drift'), source.name || ': ', '') || example order by source_id) as example
from validation
join source using (source_id)
where rule in ('other_job', 'rank_missing', 'rank_twice', 'steps_differ', 'collective_disagrees')
    -- else no more than an error of the clocks
    or rule = 'clock_drift' and severity = 'error'
group by rule
