-- A row is a reason why inputs do not belong together as ranks of one job: a rule of validation.
--
-- columns:
--   rule        varchar   the rule
--   input_cnt   bigint    inputs that break it
--   example     varchar   what is wrong with the first of them

select rule, count(*) as input_cnt, any_value(example order by source_id) as example
from validation
where rule in ('other_job', 'rank_missing', 'rank_twice', 'steps_differ', 'collective_disagrees')
group by rule
