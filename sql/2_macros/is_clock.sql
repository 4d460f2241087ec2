-- Macro is_clock(metric): whether a hardware counter's metric is a clock, whose values are Hz and no fractions.

create macro is_clock(metric) as contains(lower(metric), 'clock')
