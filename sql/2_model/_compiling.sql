-- A row is a time in which something was compiled by torch.compile, a compiled kernel loaded, or a CUDA graph made.
--
-- columns:
--   source_id   integer   the input
--   process     bigint    the process, as _work_process has it
--   place       varchar   the path of the compiling range, or the call that loaded
--   start_ns    bigint    begin
--   end_ns      bigint    end
--   what        varchar   'compiled', 'loaded' or 'made'

select range.source_id, own.process, range_path.path as place, range.start_ns, range.end_ns, 'compiled' as what
from range
join _work_process as own using (source_id, thread_id)
join range_path using (path_id)
where range_path.path like '% (dynamo_timed)' and not regexp_matches(range_path.path, '\(dynamo_timed\)/')
union all by name
select call.source_id, own.process, name.text as place, call.start_ns, call.end_ns,
    if(contains(name.text, 'Load'), 'loaded', 'made') as what
from api_call as call
join name using (name_id)
join _work_process as own using (source_id, thread_id)
where regexp_matches(name.text, '^(cu|cuda|hip)((Module|Library)Load|Stream(Begin|End)Capture|GraphInstantiate)')
    and not call.is_duplicate
