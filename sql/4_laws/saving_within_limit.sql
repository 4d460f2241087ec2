-- A row is a place of a finding that saves more than what it is blamed for.
--
-- But for waits: what is lost behind them may be more than the gap.
--
-- columns:
--   source_id   integer   the input
--   rule        varchar   the rule
--   place       varchar   the place
--   saving_ns   double    what it saves
--   limit_ns    double    what it is blamed for

select source_id, rule, place, saving_ns::double as saving_ns, limit_ns
from _predicted_finding
where saving_ns > limit_ns + 1 and rule not in ('blocking_copy', 'pageable_async_copy', 'synchronisation')
