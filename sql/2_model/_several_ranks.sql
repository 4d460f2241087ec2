-- A row is an input of a rank, where there are several ranks.

select source_id, rank, kind, host
from source
where rank is not null and kind is not null and (select count(distinct rank) from source) > 1
