-- A row is the default of one threshold.

select name, value, doc
from (
    values
    ('kernel_wait_ns', 5000.0, 'idle_gap: a gap longer than this is never the device''s own distance between two kernels'),
    ('near_kernel_ns', 3000.0, 'idle_gap: a gap shorter than this may be the distance between two kernels, however late the launch'),
    ('clock_slack_ns', 10000.0, 'a wait of the CPU may seem to end so much before what it waited for: clocks differ'),
    ('short_kernel_ns', 10000.0, 'launch_outlier: a kernel shorter than this is tiny'),
    ('late_launch_ns', 100000.0, 'launch_outlier: work this much later than the end of its launch waited long (critical_path: always 100 us)'),
    ('slow_api_ns', 50000.0, 'launch_outlier: a launching call longer than this is slow'),
    ('full_queue_cnt', 512.0, 'a slow launch after so many operations of its stream waits for the queue'),
    ('long_gap_ns', 500000.0, 'finding: an idle gap longer than this is reported by itself'),
    ('uneven_step_frac', 0.1, 'step_summary: a step this much slower than the median is uneven'),
    ('straggler_frac', 0.02, 'straggler: a rank is late by at least this share of the step'),
    ('least_frac', 0.001, 'finding: what costs less than this share of the window is left out'),
    ('severe_frac', 0.1, 'finding: a cost of this share of the window is of high severity'),
    ('notable_frac', 0.02, 'finding: a cost of this share of the window is of medium severity'),
    ('padding_frac', 0.1, 'finding: tokens of which at least this share is padding are reported'),
    ('memory_share_frac', 0.1, 'memory_finding: a category with more than this share of the peak is reported'),
    ('fragmentation_frac', 0.2, 'memory_finding: a pool of which more than this share is held unused is fragmented'),
    ('limit_frac', 0.6, 'kernel_metric_summary: what a counter says of a limit when it is at this share of its peak or above'),
    ('time_bin_cnt', 200.0, 'utilisation_over_time and other series: number of equal bins of the window')
) as thresholds(name, value, doc)
