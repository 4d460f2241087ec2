"""One model on several devices: a process for each, and a trainer for each kind of parallelism."""
