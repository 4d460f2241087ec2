-- A row is a kernel of matrix products in 32 bits on a device whose tensor cores are faster.
--
-- Let tensor cores do it: autocast or bfloat16 weights, or torch.backends.cuda.matmul.fp32_precision = "tf32" where the last bits do not matter.
with
peak as (
    select
        device.source_id,
        arg_min(1 - matrix32_flops / matrix16_flops, priority) as gain_frac
    from device
    join device_peak on regexp_matches(device.name, device_peak.pattern, 'i')
    group by device.source_id
)
select
    critical.source_id,
    critical.name as place,
    sum(critical.critical_ns) * any_value(peak.gain_frac) as saving_ns,
    sum(critical.segment_cnt) as occurrence_cnt,
    format('{:.3f} ms of the critical path; 16 bits are {:.0f} times as fast on this device', sum(critical.critical_ns) / 1e6,
        1 / (1 - any_value(peak.gain_frac))) as evidence
from critical_path as critical
join peak on peak.source_id = critical.source_id
where critical.activity = 'kernel' and regexp_matches(critical.name, '(?i)sgemm|_simt_|ffma')
group by critical.source_id, critical.name
