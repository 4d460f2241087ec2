-- A row is one range whose tensors are converted between the layouts NCHW and NHWC.
--
-- Keep one layout: model.to(memory_format=torch.channels_last) and inputs in channels_last as well, in 16 bits. A conversion remains where an operator in between supports only the other layout.
--
-- Without torch: Keep one layout: channels last (NHWC) for data and weights, in 16 bits. A conversion remains where an operation in between supports only the other layout.
--
-- Only with: from _blamed_kernel where rule = 'layout_conversion'
select
    kernel.source_id,
    coalesce(range_path.path, if(kernel.is_launched, null, '(launch not recorded)')) as place,
    sum(kernel.critical_ns) as saving_ns,
    count(*) as occurrence_cnt,
    format('{:,} conversions on the critical path, {} on average: {}', count(*), said_ns(avg(kernel.critical_ns)),
        arg_max(short.short_name, kernel.critical_ns)) as evidence
from _blamed_kernel as kernel
join _short_name as short using (source_id, name_id)
left join range_path using (path_id)
where kernel.rule = 'layout_conversion'
group by all
