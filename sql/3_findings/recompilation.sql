-- A row is a kind of compiling within steps: torch.compile's, or loading a compiled kernel.
--
-- Something that was compiled for differs from step to step: lengths (pad to a few sizes, or mark_dynamic), a changing Python value, a new dtype or grad mode. TORCH_LOGS=recompiles says which guard failed. Kernels are loaded at their first use: warm up first.

with
compiling as (
    select
        range.source_id,
        range_path.path as place,
        range.start_ns,
        range.end_ns,
        'compiled' as what
    from range
    join range_path using (path_id)
    where range_path.path like '% (dynamo_timed)' and not regexp_matches(range_path.path, '\(dynamo_timed\)/')
    union all by name
    select call.source_id, name.text as place, call.start_ns, call.end_ns, 'loaded' as what
    from api_call as call
    join name using (name_id)
    where regexp_matches(name.text, '^(cu|cuda|hip)(Module|Library)Load') and not call.is_duplicate
)
select
    compiling.source_id,
    compiling.place,
    sum(compiling.end_ns - compiling.start_ns)::bigint as cost_ns,
    count(*) as occurrence_cnt,
    format('{} {} times in {} steps', any_value(compiling.what), count(*), count(distinct step.range_id)) as evidence
from compiling
asof join _step as step on step.source_id = compiling.source_id and compiling.start_ns >= step.start_ns
where compiling.start_ns < step.end_ns
group by compiling.source_id, compiling.place
