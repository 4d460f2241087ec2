"""Runs a Python script inside torch.profiler, as `python script.py …` or `python -m module …` would run it.

Usage: python -m lorabench.collect.scripts.script torch|memory TRACE.json.gz script.py ARGUMENTS…; memory records every
allocation, too.
"""

import runpy
import sys
from pathlib import Path

import torch

from ..instruments.watchers import check_trace


def main() -> None:
    """Run the script, export the trace however the script ends, and end as the script did."""
    pass_name, trace, *words = sys.argv[1:]
    activities = [torch.profiler.ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    profiler = torch.profiler.profile(activities=activities, profile_memory=pass_name == "memory")
    profiler.start()
    try:
        _run(words)
    finally:
        profiler.stop()
        profiler.export_chrome_trace(trace)
    check_trace(Path(trace))


def _run(words: list[str]) -> None:
    if words[0] == "-m":
        sys.argv = words[1:]
        sys.path[0] = str(Path.cwd())
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        return
    sys.argv = words
    sys.path[0] = str(Path(words[0]).resolve().parent)
    runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    main()
