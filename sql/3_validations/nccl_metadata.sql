-- A row is an input with calls of collectives that lack their name, type, number of elements or size of the group: as torch's own
-- check counts them, with those that only wait for another one.
--
-- Where work was launched its bytes are those of NCCL's own ranges, and the size of the group that of the ranks at hand; where neither says them (an error), volume and bandwidth of communication are not known. torch 2.1 and later record all of it.

select
    source_id,
    if(bool_or(in_bytes is null and out_bytes is null and (name is not null or work_cnt > 0)), 'error', 'warning') as severity,
    count(*) as problem_cnt,
    format('{} at {} ns', coalesce(any_value(name), 'a collective without a name'), min(start_ns)) as example
from collective
where found_by = 'record_param_comms'
    and (name is null or dtype is null or in_element_cnt is null or out_element_cnt is null or group_size is null)
group by source_id
