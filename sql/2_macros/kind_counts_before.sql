-- Macro kind_counts_before(kind, device): whether totals of memory in a file of that kind have what was there of a device
-- before the recording. nsys begins to count with it, and so does torch's profiler on a CPU.

create macro kind_counts_before(kind, device) as kind <> 'nsys' and (kind <> 'kineto' or device <> 'cpu')
