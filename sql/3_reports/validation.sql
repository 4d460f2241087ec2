-- A row is one rule that an input breaks: something in the file is lost, inconsistent or impossible.
--
-- The first six rules are those of torch's own validator of chrome traces (torch.profiler._trace_validator); rules that
-- need what only one format has are silent for the other. The arithmetic identities are checked when a file is read.
--
-- columns:
--   rule          varchar   the rule
--   severity      varchar   'error': times or links in the file are wrong; 'warning': something is missing
--   problem_cnt   bigint    how often
--   example       varchar   one of them
--   advice        varchar   what it means and what to do
--   source_id     integer   the input, see trace_info
--   rank          integer   rank of the input, NULL if not recorded

select
    found.rule,
    found.severity,
    found.problem_cnt::bigint as problem_cnt,
    found.example,
    found.advice,
    found.source_id,
    source.rank
from _validation as found
join source on source.source_id = found.source_id
order by found.severity, found.rule, found.source_id, found.example
