-- A row is a step of inputs of a kind: how many collectives it has, and how many of them are matched with nobody's.
--
-- Sends and receives do not count: between two ranks nothing tells which of several belong together.
--
-- columns:
--   kind             varchar   kind of the inputs
--   step             bigint    number of the step
--   unmatched_cnt    bigint    rows of collective without a match
--   collective_cnt   bigint    all of them

select
    source.kind,
    matched.step,
    count(*) filter (matched.match_id is null) as unmatched_cnt,
    count(*) as collective_cnt
from collective
join source using (source_id)
join matched_collective as matched using (collective_id)
where collective.operation is not null
    and collective.operation not in ('send', 'recv')
    and matched.step is not null
group by source.kind, matched.step
