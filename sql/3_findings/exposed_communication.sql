-- A row is one range whose communication runs while the GPU, or without one the CPU, computes nothing.
--
-- Overlap it with compute (DDP's buckets, FSDP's prefetching, gradient accumulation with no_sync), send less (only LoRA's gradients, bfloat16), or find the late rank: view straggler, with all ranks' traces.
--
-- Without torch: Overlap it with compute, send less (16 bits, only what changed), or find the late rank: view straggler, with all ranks' traces.
--
-- Only with: select 1 from _exposed_place where activity = 'communication'
-- union all select 1 from _cpu_activity where activity = 'communication'
with
-- what lies in the time that is judged: operators alone, and operators or communication
within as (
    select
        found.source_id,
        unnest(if(found.activity = 'compute', ['compute', 'either'], ['either'])) as activity,
        greatest(found.start_ns, steady.start_ns) as start_ns,
        least(found.end_ns, steady.end_ns) as end_ns
    from _cpu_activity as found
    join _steady_time as steady using (source_id)
    where found.start_ns < steady.end_ns and found.end_ns > steady.start_ns
),
follows as (
    select
        *,
        max(end_ns) over (
            partition by source_id, activity
            order by start_ns, end_ns rows between unbounded preceding and 1 preceding
        ) as before_ns
    from within
),
on_cpu as (
    select
        source_id,
        sum(if(activity = 'either', 1, -1) * greatest(0, end_ns - greatest(start_ns, coalesce(before_ns, start_ns))))
            as saving_ns
    from follows
    group by source_id
),
largest as (
    select
        found.source_id,
        arg_max(found.place, (found.end_ns - found.start_ns, found.place)) as place,
        count(*) as occurrence_cnt
    from _cpu_activity as found
    join _steady_time as steady using (source_id)
    where found.activity = 'communication' and found.start_ns >= steady.start_ns and found.start_ns < steady.end_ns
    group by found.source_id
),
-- sending less does not help where a rank waits for others
late as (
    select source_id, place, sum(waited_ns) / any_value(device_cnt) as waited_ns
    from _late_rank_wait
    join _device_cnt using (source_id)
    group by source_id, place
),
-- where no file says which collectives belong together, a rank with less of its own waits for the one that has most
unmatched as (
    select source_id, sum(least(most_ns - own_ns, exposed_communication_ns)) as waited_ns
    from (
        select
            judged.*,
            max(own_ns) over same_step as most_ns,
            bool_or(is_straggler and found_by <> 'arrival') over same_step as is_late
        from straggler as judged
        join source using (source_id)
        window same_step as (partition by source.kind, judged.step)
    ) as judged
    join _steady_time as steady using (source_id)
    left join (
        select source_id, step, max(end_ns) as end_ns from _step group by source_id, step
    ) as timed using (source_id, step)
    where judged.is_late
        and coalesce(timed.end_ns > steady.start_ns, true)
        and source_id not in (select source_id from late)
        and source_id not in (select source_id from collective where operation in ('send', 'recv'))
    group by source_id
),
piped as (
    select
        source_id,
        'Stages wait for each other (pipeline_bubble): more micro-batches, balanced stages, a schedule with '
        || 'smaller bubbles (1F1B, interleaved, zero bubble), sends that overlap.' as advice
    from collective
    where operation is not null
    group by source_id
    having bool_or(operation in ('send', 'recv')) and not bool_or(contains(operation::varchar, 'to_all'))
    union all
    select
        source_id,
        'Stages wait for each other (pipeline_bubble): balanced stages (--balance of lorabench collect), more '
        || 'adapters or micro-batches, sends that overlap.' as advice
    from _pipeline_run
    where source_id not in (select source_id from collective where operation in ('send', 'recv'))
),
-- names of ranges or kernels that say that something learns
telling as materialized (
    select name_id
    from name
    where regexp_matches(
        text, '(?i)backward|(^|[^a-z])bwd|wgrad|dgrad|grad_(input|weight)|optimizer\.step|(^|[^a-z])adamw?([^a-z]|$)'
    )
),
learning as (
    select source_id from range_path join telling using (name_id)
    union
    select source_id from _short_name join telling using (name_id)
),
found as (
    select
        exposed.* exclude (waited_ns) replace (greatest(0, saving_ns - coalesce(waited_ns, 0)) as saving_ns),
        format('{} of communication with nothing beside it', said_ns(saving_ns)) || said_waiting(waited_ns, saving_ns) as evidence
    from (
        select
            exposed.*,
            coalesce(
                late.waited_ns,
                unmatched.waited_ns * exposed.saving_ns / sum(exposed.saving_ns) over (partition by exposed.source_id)
            ) as waited_ns
        from _exposed_place as exposed
        left join late on late.source_id = exposed.source_id and late.place is not distinct from exposed.place
        left join unmatched on unmatched.source_id = exposed.source_id
        where exposed.activity = 'communication'
    ) as exposed
)
select
    source_id,
    place,
    saving_ns,
    occurrence_cnt,
    format('{}, the most in {}', evidence, largest) as evidence,
    case
        when data_parallel_advice(source_id) is not null then data_parallel_advice(source_id)
        when source.world_size = 1
            then 'A single rank has nobody to talk to: leave out what would communicate (DDP, FSDP, tensor parallelism) where '
                || 'there is one GPU.'
        when contains(largest, 'SendRecv') and not regexp_matches(coalesce(place, ''), '(?i)all_?to_?all') and piped.advice is not null
            then piped.advice
        -- what all_to_all launches is called so, too; sends of pipelines are in ranges that say so
        when regexp_matches(place, '(?i)all_?to_?all')
            or contains(largest, 'SendRecv') and not regexp_matches(
                coalesce(place, ''), '(?i)(^|[/:_ ])i?(send|recv)|p2p|all_?(gather|reduce)|reduce_?scatter|broadcast'
            )
            then if(place is null, 'All-to-all, or sends between stages (no range says which)', 'All-to-all')
            || ': exchange while something else computes (the next batch''s lookups, shared experts, other '
            || 'heads), balance what ranks send (embedding shards, expert capacity), send fewer bits, or find the late '
            || 'rank: view straggler, with all ranks'' traces.'
        -- torch's names would show one
        when has_torch(source_id) and source_id not in (from learning)
            then 'Without a backward: spread a model over fewer GPUs (less tensor parallelism, more replicas), send less (8 bits, '
            || 'all-reduce fused with the norm after it), batch more, or find the late rank: view straggler, with all '
            || 'ranks'' traces.'
    end as advice
from found
join source using (source_id)
left join piped using (source_id)
union all
select
    source_id,
    largest.place,
    greatest(0, on_cpu.saving_ns - coalesce(late.waited_ns, 0)) as saving_ns,
    largest.occurrence_cnt,
    format('{} of communication while no operator computes', said_ns(on_cpu.saving_ns))
    || said_waiting(late.waited_ns, on_cpu.saving_ns) as evidence,
    piped.advice
from on_cpu
join largest using (source_id)
left join piped using (source_id)
left join (
    select source_id, sum(waited_ns) as waited_ns from _late_rank_wait group by source_id
) as late using (source_id)
