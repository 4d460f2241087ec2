-- A row is the long idle gaps of one rule in the ranges of one path, with what ended the longest.
--
-- columns:
--   source_id        integer   the input
--   rule             varchar   'long_idle_gap' or 'long_dependency'
--   place            varchar   name path of the range, NULL outside all ranges
--   saving_ns        double    what the input would save without them, at most
--   occurrence_cnt   bigint    gaps
--   evidence         varchar   how many, how long, and before which work
--   is_seen          boolean   whether it is known what the CPU was in during the longest, or that it was in nothing
--   cpu_kind         varchar   the kind of range or 'call' that it was in, NULL for nothing

select
    long.source_id,
    long.rule,
    long.place,
    long.saving_ns,
    long.occurrence_cnt,
    if(long.occurrence_cnt = 1, 'a gap of ', format('{} gaps, the longest ', long.occurrence_cnt))
    || format('{}, ended by {}', said_ns(long.longest_ns), short.short_name)
    || if(cpu.rule is null, '', '; in it the CPU is in ' || coalesce(cpu.cpu_in, 'no range or CUDA call')) as evidence,
    cpu.rule is not null as is_seen,
    cpu.cpu_kind
from _blamed_place as long
join gpu_op as op on op.gpu_op_id = long.ended_by
join _short_name as short on short.source_id = op.source_id and short.name_id = op.name_id
left join _place_cpu as cpu
    on cpu.source_id = long.source_id
    and cpu.rule = long.rule
    and cpu.place is not distinct from long.place
where long.rule in ('long_idle_gap', 'long_dependency')
