-- Macro has_samples(of_source): whether nsys sampled what the CPU runs.

create macro has_samples(of_source) as of_source in (select source_id from sampled_frame where depth = 0)
