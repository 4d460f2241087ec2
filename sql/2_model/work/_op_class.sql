-- A row is GPU work of one name, owned by ranges of one path, with the class that the first matching rule gives it.
--
-- columns:
--   name_id   bigint    name of the work
--   path_id   bigint    name path of the range that owns it, NULL without
--   kind      varchar   its kind, as in gpu_op
--   class     varchar   the class, 'copy' for copies and memsets, 'other' where no rule matches

with
pair as (
    select distinct found.name_id, own.path_id, found.kind
    from (select distinct name_id, attribution_id, kind from gpu_op) as found
    left join _owner as own using (attribution_id)
),
-- names and paths are few, their pairs are many
by_name as (
    select named.name_id, min(rule.priority) as priority
    from (select distinct name_id from pair) as named
    join name using (name_id)
    join kernel_class_rule as rule on rule.subject = 'kernel' and regexp_matches(without_arguments(name.text), rule.pattern, 'i')
    group by named.name_id
),
by_path as (
    select pathed.path_id, min(rule.priority) as priority
    from (select distinct path_id from pair) as pathed
    join range_path using (path_id)
    join kernel_class_rule as rule on rule.subject <> 'kernel' and regexp_matches(range_path.path, rule.pattern, 'i')
    group by pathed.path_id
)
select
    pair.name_id,
    pair.path_id,
    pair.kind,
    coalesce(case when pair.kind in ('memcpy', 'memset') then 'copy' end, rule.class, 'other') as class
from pair
left join by_name using (name_id)
left join by_path on by_path.path_id = pair.path_id
left join kernel_class_rule as rule on rule.priority = least(by_name.priority, by_path.priority)
