-- A row is a rule of memory_finding on a device: how high memory would still come without all that the rule is about.
--
--        ▄▄ gradients ▄▄          what is largest at the peak is not what the peak hangs on:
--      ████████    ██████         without them it is as high as it was before they came
--    ████████████████████
--
-- columns:
--   source_id    integer   the input
--   device       varchar   the device
--   rule         varchar   the rule
--   peak_bytes   bigint    the most that was live
--   rest_bytes   bigint    the most that was live of all else

with
about(rule, category) as (
    values
    ('activations', 'activation'), ('forward_results', 'forward_result'), ('gradients', 'gradient'), ('optimizer_state', 'optimizer_state'),
    ('temporaries', 'temporary'), ('temporaries', 'autograd_detail'), ('temporaries', 'quantisation_workspace'),
    ('weights', 'parameter'), ('weights', 'adapter_parameter'), ('before_recording', 'unknown')
),
change as (
    select
        source_id,
        coalesce(process_id, -1) as process,
        device,
        category,
        coalesce(time_ns, event_number) as moment,
        live_bytes - coalesce(
            lag(live_bytes) over (partition by source_id, process_id, device, category order by coalesce(time_ns, event_number)), 0
        ) as bytes
    from memory_by_category
),
-- of each rule, and of none for all
kept as (
    select rules.rule, change.source_id, change.process, change.device, change.moment, sum(change.bytes) as bytes
    from change
    cross join (select distinct rule from about union all select null) as rules
    where not exists (from about where about.rule = rules.rule and about.category = change.category)
    group by all
),
level as (
    select
        rule,
        source_id,
        device,
        sum(bytes) over (partition by rule, source_id, process, device order by moment rows unbounded preceding) as live_bytes
    from kept
),
most as (
    select rule, source_id, device, max(live_bytes) as bytes from level group by all
)
select rest.source_id, rest.device, rest.rule, every.bytes::bigint as peak_bytes, rest.bytes::bigint as rest_bytes
from most as rest
join most as every on every.source_id = rest.source_id and every.device = rest.device and every.rule is null
where rest.rule is not null
