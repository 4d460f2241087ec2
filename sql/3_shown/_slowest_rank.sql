-- A row is a kind of inputs of several ranks: the rank for which the others waited longest, and why.
--
-- The cause is what made it late for most of the time. late_host is its machine where all ranks of that are: in at
-- least half as many steps.
--
-- columns:
--   kind              varchar   kind of the inputs
--   rank              integer   the rank
--   rank_cnt          bigint    ranks that are compared
--   step_cnt          bigint    steps that are compared, 0 for inputs without steps
--   straggler_cnt     bigint    steps in which it is the straggler
--   kept_waiting_ns   bigint    summed time that others waited for it
--   cause             varchar   what it spent more on than the others, NULL if not known
--   cause_ns          bigint    how much more
--   cause_place       varchar   where its CPU was for most of that
--   place_ns          bigint    the part of cause_ns there
--   late_host         varchar   its machine if all of that is late and there are others, NULL if not
--   host_late_ns      bigint    by how much the ranks of that machine were late in the steps in which they were, the median

with
placed as (
    select source.source_id, source.kind, source.host, count(*) over (partition by kind, host) > 1 and hosts.cnt > 1 as is_shared
    from source
    join (select kind, count(distinct host) as cnt from source group by kind) as hosts using (kind)
),
compared as materialized (
    select straggler.*, placed.kind, placed.host, placed.is_shared
    from straggler
    join placed using (source_id)
),
late as (
    select kind, host, median(late_ns)::bigint as late_ns
    from (
        select
            kind,
            host,
            count(*) filter (is_straggler) over (partition by kind, host, rank) as step_cnt,
            case when is_straggler then if(found_by = 'arrival', late_ns, lag_ns) end as late_ns
        from compared
        where is_shared
    )
    group by kind, host
    having min(step_cnt) > 0 and 2 * min(step_cnt) >= max(step_cnt)
),
slowest as (
    select
        kind,
        rank,
        min(source_id) as source_id,
        count(*) as straggler_cnt,
        sum(kept_waiting_ns)::bigint as kept_waiting_ns,
        any_value(host) as host
    from compared
    where is_straggler
    group by kind, rank
    qualify row_number() over (partition by kind order by sum(kept_waiting_ns) desc, rank) = 1
),
counted as (
    select kind, count(distinct rank) as rank_cnt, count(distinct step) as step_cnt
    from compared
    group by kind
)
select
    slowest.kind,
    slowest.rank,
    counted.rank_cnt,
    counted.step_cnt,
    slowest.straggler_cnt,
    slowest.kept_waiting_ns,
    why.cause,
    why.cause_ns,
    why.cause_place,
    why.place_ns,
    late.host as late_host,
    late.late_ns as host_late_ns
from slowest
join counted using (kind)
left join _straggler_cause as why using (source_id)
left join late on late.kind = slowest.kind and late.host = slowest.host
