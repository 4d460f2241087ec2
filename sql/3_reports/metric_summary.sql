-- A row is one hardware counter of one device: what nsys sampled of it (nsys profile --gpu-metrics-devices=all).
--
-- Names are those of nsys, without their units. What is a percentage there is a fraction of what the device can do at
-- most; clocks are in Hz. The other units in which nsys says the same are left out.
--
-- columns:
--   metric          varchar   the metric: 'SMs Active', 'Tensor Active', 'DRAM Read Bandwidth' …
--   device_id       integer   the device
--   sample_cnt      bigint    samples
--   mean_frac       double    mean of the samples; NULL, as other fractions, for clocks
--   busy_frac       double    mean of those during which kernels ran, whatever part of their time; NULL without any
--   median_frac     double    median, interpolated
--   max_frac        double    largest
--   mean_hz         double    mean of a clock's samples; NULL, as what follows, for other metrics
--   busy_hz         double    mean of those during which kernels ran
--   min_hz          double    smallest
--   max_hz          double    largest
--   mean_apart_ns   double    mean time from one sample to the next, NULL for one sample
--   source_id       integer   the input, see trace_info
--   rank            integer   rank of the input, NULL if not recorded

with
busy as (
    select distinct source_id, device_id, start_ns
    from _metric_work
    join _metric_window using (source_id, device_id, window_id)
),
sample as (
    select
        one.source_id,
        one.device_id,
        one.start_ns,
        name.text as metric,
        -- sums of decimals do not depend on their order
        if(is_clock(name.text), null, one.value::decimal(18, 6)) as frac,
        if(is_clock(name.text), one.value::decimal(18, 6), null) as hz,
        busy.start_ns is not null as is_busy
    from gpu_metric_sample as one
    join name using (name_id)
    left join busy
        on busy.source_id = one.source_id and busy.device_id = one.device_id and busy.start_ns = one.start_ns
)
select
    sample.metric,
    sample.device_id,
    count(*) as sample_cnt,
    avg(sample.frac) as mean_frac,
    avg(sample.frac) filter (sample.is_busy) as busy_frac,
    median(sample.frac::double) as median_frac,
    max(sample.frac)::double as max_frac,
    avg(sample.hz) as mean_hz,
    avg(sample.hz) filter (sample.is_busy) as busy_hz,
    min(sample.hz)::double as min_hz,
    max(sample.hz)::double as max_hz,
    (max(sample.start_ns) - min(sample.start_ns)) / nullif(count(*) - 1, 0) as mean_apart_ns,
    sample.source_id,
    any_value(source.rank) as rank
from sample
join source on source.source_id = sample.source_id
group by sample.source_id, sample.device_id, sample.metric
order by sample.source_id, sample.device_id, sample.metric
