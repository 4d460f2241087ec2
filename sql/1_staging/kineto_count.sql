-- A row is how many events of a phase and category a piece of a trace holds, and how many of them are unusable.

select
    batch.phase,
    batch.category,
    category.becomes,
    count(*) as event_cnt,
    count(*) filter (category.becomes is not null and (batch.end_ns >= batch.start_ns) is not true) as unusable_cnt
from batch
left join category
    on category.category = batch.category and batch.phase = 'X' and batch.name is distinct from '[memory]'
group by batch.phase, batch.category, category.becomes
