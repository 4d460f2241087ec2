-- A row is a kind of input whose ranks would save time if they were alike (without_stragglers), in a step on average.
--
-- Clocks do not matter for it, but what is less than their error is nothing that anybody could see.
--
-- columns:
--   kind          varchar   the kind of input, as in source
--   saving_ns     bigint    by how much steps would be shorter
--   saving_frac   double    part of the step
--   rank          integer   the rank that costs most alone
--   alone_ns      bigint    what it costs alone

with
of_rank as (
    select
        source.kind,
        alike.rank,
        avg(alike.replayed_ns) as step_ns,
        avg(alike.replayed_ns - alike.ideal_ns) as saving_ns,
        avg(alike.alone_ns - alike.ideal_ns) as alone_ns
    from without_stragglers as alike
    join source on source.source_id = alike.source_id
    where alike.ideal_ns is not null
    group by source.kind, alike.rank
)
select
    kind,
    max(saving_ns)::bigint as saving_ns,
    max(saving_ns) / max(step_ns) as saving_frac,
    arg_max(rank, alone_ns) as rank,
    max(alone_ns)::bigint as alone_ns
from of_rank
group by kind
having max(saving_ns) > (select coalesce(max(error_ns), 0) from clock_offset)
    and max(saving_ns) > max(step_ns) * (select value from threshold where name = 'straggler_frac')
