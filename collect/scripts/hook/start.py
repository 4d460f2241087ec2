"""Starts what the pass wants in this process, when torch has been imported."""

import contextlib
import json
import os
import sys
from typing import Any, List

from .imports import AfterImport
from .process import Process, is_launcher

SETTINGS = "settings.json"
PYTHONS = "pythons"  # a line for each Python process, also without torch
LEDGER = ".ledger.csv"  # of a process: what its storages are for, in the memory pass
OTHER_THREAD = (
    "it trained in a thread other than the one that imported torch, the only one whose operators this pass records: "
    "import torch where the training is"
)
_FORKED = (
    "nsys does not follow processes that are forked without an exec, like this one, which trains: start it "
    "by spawn or torchrun, or leave nsys out of --profiler"
)
_CUT = "a process that trains ended by os._exit: nsys loses what it has not written by then, so its ranges end early"
OWN_SPANS = "lorabench.collect.instruments.spans"
imports: "List[AfterImport]" = []  # the one of this process


def begin(folder: str) -> None:
    """Wait for torch. `folder` is where settings are and records go."""
    with open(os.path.join(folder, PYTHONS), "ab", buffering=0) as file:
        file.write(b"%d\n" % os.getpid())
    _print_by_lines()
    finder = AfterImport()
    imports.append(finder)
    finder.call("torch", lambda torch: _start(folder, torch, finder))


def _print_by_lines() -> None:
    """What is printed is seen as it comes, as at a terminal; lines of several ranks stay whole."""
    with contextlib.suppress(AttributeError, ValueError):  # none, somebody's own, or closed
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]


def _start(folder: str, torch: Any, finder: AfterImport) -> None:
    """Start what the pass needs. A launcher is watched, too, so that it is known as one, but not recorded."""
    process = Process(folder)
    try:
        with open(os.path.join(folder, SETTINGS), encoding="utf-8") as file:
            settings = json.load(file)
        process.begin()
        process.record["torch"] = str(torch.__version__)
        process.record["is_launcher"] = is_launcher()
        process.watch()
        if not process.record["is_launcher"]:
            _observe(process, settings, finder)
        process.write()
    except Exception as error:  # the script goes on whatever fails here; it is said
        sys.stderr.write(f"lorabench: this process is not profiled ({type(error).__name__}: {error})\n")


def _tell_what_is_cut(process: Process, step_cnt: int) -> None:
    if process.ending == "os._exit" and step_cnt and _FORKED not in process.record["notes"]:
        process.note(_CUT)


def _observe(process: Process, settings: Any, finder: AfterImport) -> None:
    from . import numbered, phases, purposes, recorder, steps

    clock = steps.Steps(process, settings.get("turn", 1))
    if settings["pass"] == "nsys":
        clock.on_fork.append(lambda: process.note(_FORKED))
        process.at_end(lambda: _tell_what_is_cut(process, clock.count))
    recording = None
    if settings["pass"] in ("torch", "memory"):
        ranges_of_steps = numbered.Numbered(process, clock)
        recording = recorder.Recorder(process, clock, settings)
        recording.begin()
    else:
        recorder.tell_of_others(process, settings["pass"])
    is_timing = settings["pass"] == "timing"
    ranges = None if is_timing else phases.instruments(process)
    watched = phases.Phases(process, clock, ranges, settings["depth"], counts_padding=is_timing)
    watched.begin()
    if recording is not None:
        is_named = bool(settings["schedule"])
        ranges_of_steps.begin(lambda: (is_named or clock.turn > 1) and watched.has_ranges and recording.is_recording())
    if recording is not None and settings["pass"] == "memory":
        watched.on_model.append(purposes.Purposes(process, clock, recording.is_recording).found)
    finder.call(OWN_SPANS, lambda _: watched.leave_to_script())
