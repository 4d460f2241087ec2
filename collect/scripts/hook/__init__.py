"""What runs inside the Python processes of somebody else's command: clocks, ranges, torch.profiler.

command.py puts the folder `path` first in PYTHONPATH, so each Python process of the command loads path/sitecustomize.py
before anything else, whatever starts it. That gives this package the name `_lorabench.collect.scripts.hook`: it works
where lorabench is not installed, and a script that uses lorabench keeps its own. Nothing happens until torch is
imported.

    path/sitecustomize ─► start ─► process   who this process is, how it ends, what it left (a record, JSON)
                            │      steps     where optimizer steps end, and their tokens
                            │      phases    ranges: data, forward, backward, optimizer; modules
                            │      numbered  ranges of steps, where a schedule keeps some
                            └────► recorder  torch.profiler, and what the script does with a profiler of its own

Only the standard library and torch; Python 3.9 and later. The ranges are those of collect/instruments, from 3.10 on.
An error in here must never become one of the script: it is noted in the record.
"""
