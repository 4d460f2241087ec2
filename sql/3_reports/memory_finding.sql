-- A row is something that takes memory and can be changed: what, where, how much, how it is known, what to do.
--
-- What the peak depends on most comes first: without gradients it may be nearly as high, because another phase comes as high.
-- The rules are the files of sql/3_memory_findings; each looks at one report. Shares are of the device's peak (of what
-- is held, for fragmentation) and may overlap. Less than 1 MiB is none. An allocation that failed is of high severity,
-- else it goes by the share; growth from step to step, which ends every run that is long enough, is no less than medium.
--
-- columns:
--   rule         varchar   name of the rule
--   severity     varchar   'high' (half of the memory, or it ran out), 'medium' or 'low'
--   device       varchar   'cuda:0', 'cpu' …
--   cost_bytes   bigint    memory that it takes
--   cost_frac    double    cost_bytes as a fraction of the device's peak; of what was held, for fragmentation
--   fall_bytes   bigint    by how much the peak would be lower without all of it, NULL for fragmentation, growth and allocations that failed
--   evidence     varchar   what was seen
--   advice       varchar   what to do
--   source_id    integer   the input, see trace_info
--   rank         integer   rank of the input, NULL if not recorded

with
peak as (
    select source_id, device, max(live_bytes) as bytes
    from _memory_level
    group by all
),
measured as (
    select
        found.*,
        found.cost_bytes / nullif(coalesce(found.of_bytes, peak.bytes), 0) as cost_frac,
        if(without.rest_bytes is null, null, least(found.cost_bytes, without.peak_bytes - without.rest_bytes))::bigint as fall_bytes
    from _memory_finding as found
    left join peak using (source_id, device)
    left join _memory_without as without using (source_id, device, rule)
)
select
    measured.rule,
    case
        when measured.rule = 'out_of_memory' or measured.cost_frac >= 0.5 then 'high'
        when measured.rule = 'growth' or measured.cost_frac >= (select value from threshold where name = 'severe_frac') then 'medium'
        else 'low'
    end as severity,
    measured.device,
    measured.cost_bytes::bigint as cost_bytes,
    measured.cost_frac,
    measured.fall_bytes,
    measured.evidence
    || if(
        measured.fall_bytes < 0.8 * measured.cost_bytes,
        format('; without them the peak falls by {:,.0f} MiB: then another moment is the highest', measured.fall_bytes / 1048576),
        ''
    ) as evidence,
    measured.advice,
    measured.source_id,
    source.rank
from measured
join source using (source_id)
where measured.cost_bytes >= 1048576 or measured.rule = 'out_of_memory'
order by
    measured.rule = 'out_of_memory' desc, measured.rule = 'growth' desc,
    coalesce(measured.fall_bytes, measured.cost_bytes) desc, measured.cost_bytes desc, measured.rule,
    measured.source_id
