-- A row is one input with steps: how their times are spread, and tokens per second where token counts are known.
--
-- A step's time is its length_ns in step_summary: where the CPU runs ahead, the GPU's. Steps of one number that follow one
-- another (adapters in turn) count as one: their times are added up. Those of several processes in one file count each. Quantiles are interpolated.
--
-- columns:
--   found_by        varchar   how they were found, see step_summary
--   step_cnt        bigint    steps
--   mean_ns         double    mean duration
--   stddev_ns       double    sample standard deviation, 0 for one step
--   min_ns          bigint    shortest
--   p50_ns          double    median
--   p90_ns          double    90th percentile
--   p95_ns          double    95th percentile
--   p99_ns          double    99th percentile
--   max_ns          bigint    longest
--   uneven_cnt      bigint    steps slower than the median by more than uneven_step_frac
--   token_cnt       bigint    tokens of all steps; NULL without steps.csv of lorabench collect beside the trace
--   token_per_s     double    tokens / time of the steps, the profiler's cost included
--   padding_frac    double    share of the tokens that is padding, NULL like token_cnt
--   source_id       integer   the input, see trace_info
--   rank            integer   rank of the input, NULL if not recorded

with
compared as (
    select *, median(length_ns) over (partition by source_id) as median_ns
    from _step_turn
)
select
    any_value(compared.found_by) as found_by,
    count(*) as step_cnt,
    avg(length_ns) as mean_ns,
    sample_stddev(length_ns) as stddev_ns,
    min(length_ns)::bigint as min_ns,
    quantile_cont(length_ns, 0.5) as p50_ns,
    quantile_cont(length_ns, 0.9) as p90_ns,
    quantile_cont(length_ns, 0.95) as p95_ns,
    quantile_cont(length_ns, 0.99) as p99_ns,
    max(length_ns)::bigint as max_ns,
    count(*) filter (
        length_ns > median_ns * (1 + (select value from threshold where name = 'uneven_step_frac'))
    ) as uneven_cnt,
    sum(compared.token_cnt)::bigint as token_cnt,
    sum(compared.token_cnt) / nullif(sum(length_ns) filter (compared.token_cnt is not null), 0) * 1e9 as token_per_s,
    any_value(padding.padding_frac) as padding_frac,
    compared.source_id,
    source.rank
from compared
join source on source.source_id = compared.source_id
left join _padding as padding on padding.source_id = compared.source_id
group by compared.source_id, source.rank
order by compared.source_id
