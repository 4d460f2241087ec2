-- Macro measured_by(metric): which column has what a counter of a GPU says, by the name that nsys gives it; NULL for others.

create macro measured_by(metric) as
    case
        when regexp_matches(metric, '(?i)^SMs? Active$') then 'sm_active'
        when regexp_matches(metric, '(?i)^SM Issue( Active)?$') then 'sm_issue'
        when regexp_matches(metric, '(?i)^Tensor (Core )?Active\b') then 'tensor_active'
        when regexp_matches(metric, '(?i)^(DRAM|VRAM|GPU Memory) Read (Bandwidth|Throughput)$') then 'dram_read'
        when regexp_matches(metric, '(?i)^(DRAM|VRAM|GPU Memory) Write (Bandwidth|Throughput)$') then 'dram_write'
    end
