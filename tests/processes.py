"""Processes that a run has left alive, found by a variable that all that it starts inherit."""

import contextlib
import time
from pathlib import Path

import psutil

_PATIENCE_S = 5.0
# lorabench hands variables of the hub on to whatever it starts, under nsys, too
MARK = "HF_HOME"


def mark(folder: Path) -> dict[str, str]:
    """What to add to the environment of a run, so that what it starts is found."""
    return {MARK: str(folder / "hub")}


def left_alive(folder: Path) -> dict[int, str]:
    """Living processes of the runs that were marked with a folder, once they had time to end: ids, command lines."""
    end = time.monotonic() + _PATIENCE_S
    while (found := _marked(str(folder / "hub"))) and time.monotonic() < end:
        time.sleep(0.1)
    return found


def _marked(value: str) -> dict[int, str]:
    found = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(MARK) == value and process.status() != psutil.STATUS_ZOMBIE:
                found[process.pid] = " ".join(process.cmdline())
    return found
