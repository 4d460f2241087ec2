-- A row is a set of name paths that has a path twice, or not exactly one owner.

select
    attribution_id,
    count(*) as path_cnt,
    count(distinct path_id) as distinct_path_cnt,
    count(*) filter (is_self) as owner_cnt
from attribution
group by attribution_id
having path_cnt <> distinct_path_cnt or owner_cnt <> 1
