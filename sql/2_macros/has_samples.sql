-- Macro has_samples(of_source): whether nsys sampled what the CPU runs.

create macro has_samples(of_source) as of_source in (select source_id from source_fact where item = 'samples of the CPU')
