-- A row is a job with inputs of some ranks but not of others.
--
-- Collectives of the missing ranks stay unmatched (collective_match), and whether one of them was the slowest is not known. Add their traces.

with
ranked as (
    select source.*, mode(world_size) over (partition by kind) as usual_size
    from source
    semi join _counted_rank using (source_id)
),
job as (
    select
        min(source_id) as source_id,
        any_value(usual_size) as usual_size,
        list_filter(range(any_value(usual_size)), lambda one: not list_contains(list(rank), one::integer)) as missing
    from ranked
    where usual_size is not null
    group by kind
)
select
    source_id,
    'warning' as severity,
    len(missing) as problem_cnt,
    format(
        'rank {} of {}', array_to_string(missing[:8], ', ') || if(len(missing) > 8, ' …', ''), usual_size
    ) as example
from job
where len(missing) > 0
