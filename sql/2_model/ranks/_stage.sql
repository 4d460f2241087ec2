-- A row is a rank of a pipeline: its stage.
--
-- The stage is what the run of `lorabench collect` says; else the rank's place in the group through which it sends and
-- receives, as that lists its ranks.
--
-- columns:
--   source_id   integer   the input
--   stage       bigint    its stage, from 0
--   stage_cnt   bigint    stages

select source_id, stage, stage_cnt
from _pipeline_run
union all
select
    source_id,
    min(list_position(ranks, rank) - 1)::bigint as stage,
    min(len(ranks)) as stage_cnt
from (
    select distinct collective.source_id, source.rank, try_cast(collective.group_ranks as bigint[]) as ranks
    from collective
    join source using (source_id)
    where collective.operation in ('send', 'recv') and collective.source_id not in (select source_id from _pipeline_run)
)
where list_contains(ranks, rank)
group by source_id
having count(*) = 1
