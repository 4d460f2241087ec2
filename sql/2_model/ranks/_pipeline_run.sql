-- A row is an input of a pipeline that `lorabench collect` ran: its stage, and the bubble that its schedule leaves.
--
-- Micro-batches are those that follow each other without a flush: of LoRAPP those of all adapters in a step. The ideal bubble
-- is (p-1)/(m+p-1), with two stages on a device (p-1)/(2m+p-1), of LoRAPP 1 - m/p (mLoRA); of zero bubble none is published.
--
-- columns:
--   source_id         integer   the input
--   stage             bigint    its stage, from 0: its rank
--   stage_cnt         bigint    devices in the pipeline
--   micro_batch_cnt   bigint    micro-batches that follow each other without a flush
--   ideal_frac        double    the ideal bubble, NULL where none is published

with
run as (
    select
        source_id,
        source.rank::bigint as stage,
        said['parallel'] as parallel,
        said['pp_schedule'] as schedule,
        try_cast(said['devices'] as bigint) as stage_cnt,
        try_cast(said['micro_batches'] as bigint) as given_cnt,
        try_cast(said['lora_cnt'] as bigint) as lora_cnt,
        try_cast(said['grad_accum'] as bigint[]) as accumulated
    from _run_facts
    join source using (source_id)
    where parallel in ('pp', 'lorapp') and stage_cnt > 1 and stage between 0 and stage_cnt - 1
),
cut as (
    select
        *,
        if(parallel = 'pp' and schedule in ('interleaved', 'zbv'), 2, 1) as chunk_cnt,
        coalesce(nullif(given_cnt, 0), if(parallel = 'pp', stage_cnt * chunk_cnt, 1)) as one_cnt
    from run
)
select
    source_id,
    stage,
    stage_cnt,
    if(
        parallel = 'pp',
        one_cnt,
        one_cnt * if(len(accumulated) > 1, list_sum(accumulated), lora_cnt * accumulated[1])
    )::bigint as micro_batch_cnt,
    case
        when parallel = 'lorapp' then greatest(0, 1 - micro_batch_cnt / stage_cnt)
        when schedule <> 'zbv' then (stage_cnt - 1) / (chunk_cnt * one_cnt + stage_cnt - 1)
    end as ideal_frac
from cut
