-- A row is a text that rows of the source refer to, and that the table name does not hold yet.
--
-- A dictionary of a file may hold the program's whole output.
--
-- needs: api_call, call_frame, gpu_metric_sample, gpu_op, kernel_counter, memory_event, name, os_call, out_of_memory_event, overhead, range, range_path, sampled_frame, staged_name

select *
from staged_name
semi join (
    select distinct name_id from gpu_op
    union all
    select distinct name_id from api_call
    union all
    select name_id from range_path
    union all
    select text_id from range
    union all
    select distinct shape_id from range
    union all
    select distinct name_id from os_call
    union all
    select distinct name_id from overhead
    union all
    select distinct name_id from sampled_frame
    union all
    select distinct module_id from sampled_frame
    union all
    select distinct name_id from call_frame
    union all
    select distinct module_id from call_frame
    union all
    select distinct name_id from gpu_metric_sample
    union all
    select distinct name_id from kernel_counter
    union all
    select distinct counter_id from kernel_counter
    union all
    select distinct stack_id from memory_event
    union all
    select distinct stack_id from out_of_memory_event
) as used using (name_id)
anti join name using (name_id)
