-- A row is one range whose communication runs while the GPU, or without one the CPU, computes nothing.
--
-- Overlap it with computing (DDP's buckets, FSDP's prefetching, gradient accumulation with no_sync), send less (LoRA's gradients alone, bfloat16), or find the rank that comes late: see straggler.
with
change as (
    select
        found.source_id,
        unnest([greatest(found.start_ns, steady.start_ns), least(found.end_ns, steady.end_ns)]) as time_ns,
        if(found.activity = 'communication', unnest([1, -1]), 0) as communication_cnt,
        if(found.activity = 'compute', unnest([1, -1]), 0) as compute_cnt
    from _cpu_activity as found
    join _steady_time as steady using (source_id)
    where found.start_ns < steady.end_ns and found.end_ns > steady.start_ns
),
moment as (
    select source_id, time_ns, sum(communication_cnt) as communication_cnt, sum(compute_cnt) as compute_cnt
    from change
    group by source_id, time_ns
),
held as (
    select
        source_id,
        lead(time_ns) over (partition by source_id order by time_ns) - time_ns as length_ns,
        sum(communication_cnt) over so_far as communication_cnt,
        sum(compute_cnt) over so_far as compute_cnt
    from moment
    window so_far as (partition by source_id order by time_ns rows unbounded preceding)
),
on_cpu as (
    select source_id, sum(length_ns) as saving_ns
    from held
    where communication_cnt > 0 and compute_cnt = 0
    group by source_id
),
gloo as (
    select
        collective.source_id,
        'gloo:' || arg_max(collective.name, (collective.work_end_ns - collective.work_start_ns, collective.name)) as place,
        count(*) as occurrence_cnt
    from collective
    join _steady_time as steady using (source_id)
    where collective.work_start_ns >= steady.start_ns and collective.work_start_ns < steady.end_ns
        and collective.found_by = 'gloo'
    group by collective.source_id
)
select
    source_id,
    place,
    saving_ns,
    occurrence_cnt,
    format('{} of communication with nothing beside it, the most in {}', said_ns(saving_ns), largest) as evidence,
    case
        -- what all_to_all launches is called so, too; sends of pipelines are in ranges that say so
        when regexp_matches(place, '(?i)all_?to_?all')
            or contains(largest, 'SendRecv') and not regexp_matches(place, '(?i)(^|[/:_ ])i?(send|recv)|p2p')
            then 'All-to-all: exchange while something else computes (the next batch''s lookups, experts'' shared part), balance '
            || 'what ranks send (sharding of embeddings, capacity of experts), send fewer bits, or find the rank that comes '
            || 'late: see straggler.'
        when not exists (
            select 1
            from name
            where regexp_matches(text, '(?i)backward|(^|[^a-z])bwd|wgrad|dgrad|(^|[^a-z])adamw?([^a-z]|$)')
        )
            then 'Without a backward: let fewer GPUs hold one model (less tensor parallelism, more replicas), send less (8 bits, '
            || 'all-reduce fused with the norm behind it), batch more, or find the rank that comes late: see straggler.'
    end as advice
from _exposed_place
where activity = 'communication'
union all
select
    source_id,
    gloo.place,
    on_cpu.saving_ns,
    gloo.occurrence_cnt,
    format('{} of communication while no operator computes', said_ns(on_cpu.saving_ns)) as evidence,
    null as advice
from on_cpu
join gloo using (source_id)
