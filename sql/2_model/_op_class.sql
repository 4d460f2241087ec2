-- A row is GPU work of one name, owned by ranges of one path, with the class that the first matching rule gives it.

with
pair as (
    select distinct gpu_op.name_id, range.path_id, gpu_op.kind
    from gpu_op
    left join range using (range_id)
)
select
    pair.name_id,
    pair.path_id,
    pair.kind,
    coalesce(
        case when pair.kind in ('memcpy', 'memset') then 'copy' end,
        arg_min(rule.class, rule.priority),
        'other'
    ) as class
from pair
join name using (name_id)
left join range_path using (path_id)
left join kernel_class_rule as rule
    on regexp_matches(case rule.subject when 'kernel' then name.text else range_path.path end, rule.pattern, 'i')
group by pair.name_id, pair.path_id, pair.kind
