-- A row is a finding (_finding) with what a change of its place would save by replay, where a change can be replayed.
--
-- The rule's places are changed together; each has its share of what that saves, and never more than its own limit.
--
-- It has the columns of _finding, and
--
-- columns:
--   limit_ns       double    what a change saves at most
--   is_predicted   boolean   whether saving_ns is by replay, else it is the limit

with
limited as (
    select source_id, rule, sum(saving_ns) as limit_ns
    from _finding
    group by source_id, rule
)
select
    found.* replace (
        found.saving_ns * greatest(0, least(1, coalesce(followed.saving_ns / nullif(limited.limit_ns, 0), 1)))
        as saving_ns
    ),
    found.saving_ns as limit_ns,
    followed.saving_ns is not null as is_predicted
from _finding as found
join limited on limited.source_id = found.source_id and limited.rule = found.rule
left join followed_rule as followed on followed.source_id = found.source_id and followed.rule = found.rule
