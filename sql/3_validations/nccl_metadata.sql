-- A row is an input with collectives that lack their name, type, number of elements or size of the group.
--
-- Volume and bandwidth of communication cannot be computed for them; torch 2.1 and later record it.

select
    source_id,
    'error' as severity,
    count(*) as problem_cnt,
    format('{} at {} ns', coalesce(any_value(name), 'a collective without a name'), min(start_ns)) as example
from collective
where found_by = 'record_param_comms'
    and (name is null or dtype is null or in_element_cnt is null or out_element_cnt is null or group_size is null)
group by source_id
