"""torch.profiler in somebody else's process: by optimizer steps, and aside while the script profiles itself.

torch has one profiler in a process. When the script starts its own, what was recorded so far is written, and recording
goes on behind it; a copy of the script's own trace takes the place in between.
"""

import functools
import gzip
import json
import os
import shutil
import sys
import threading
import time
from typing import Any, Dict, List

import torch
import torch.autograd.profiler as torch_profiler

from .process import Process
from .start import OTHER_THREAD
from .steps import Steps

OFF, PREPARED, RECORDING = range(3)
DEFAULT_STEPS = 20
_MOST_KEPT = 8  # traces of the script's own that it may still write
_EARLY_S = 5.0  # what runs longer before the training takes memory and tells nothing of it


class Recorder:
    """Records this process."""

    def __init__(self, process: Process, clock: Steps, settings: Dict[str, Any]):
        self._process, self._clock, self._settings = process, clock, settings
        self._profiler: Any = None
        self._state = OFF
        self._cycle = 0
        self._first_step = 0  # of what is being recorded
        self._is_calling = False  # whether torch's profiler is being called from here
        self._is_theirs = False  # whether the script's own profiler runs
        self._resumes = False
        self._is_over = False  # whether a recording of ours ended because it had its steps
        self._theirs: List[Dict[str, Any]] = []
        self._thread: "int | None" = None  # the one that alone is recorded, None for all
        self._early_since: "float | None" = None  # when recording began, while no training was seen
        self._disable: Any = torch_profiler._disable_profiler

    def begin(self) -> None:
        """Begin to record, or to wait for the step at which to begin.

        A process that multiprocessing made begins when it trains: most of them load data, and never end a step.
        """
        for name in ("_prepare_profiler", "_enable_profiler"):
            setattr(torch_profiler, name, self._before_theirs(getattr(torch_profiler, name)))
        setattr(torch_profiler, "_disable_profiler", self._after_theirs(self._disable))  # noqa: B010
        profile: Any = torch_profiler.profile
        profile.export_chrome_trace = self._copied(profile.export_chrome_trace)
        self._clock.safe_points.append(self._at_safe_point)
        self._clock.on_step.append(self._stepped)
        self._clock.on_fork.append(self._begin_forked)
        self._process.at_end(self._finish)
        self._process.after_fork(self._rest)
        if self._process.record["is_worker"]:
            self._resumes = True
            return
        self._move(*self._wanted(0))
        if self._state == RECORDING:
            self._early_since = time.monotonic()

    def is_recording(self) -> bool:
        """Whether memory that is taken now is in the trace."""
        return self._state == RECORDING

    def _wanted(self, step: int) -> "tuple[int, int]":
        """What is to be done after so many steps, and in which cycle."""
        wait, warmup, active, repeat = self._settings["schedule"] or (0, 0, DEFAULT_STEPS, 1)
        cycle, within = divmod(step, wait + warmup + active)
        if (repeat and cycle >= repeat) or within < wait:
            return OFF, cycle
        return (PREPARED if within < wait + warmup else RECORDING), cycle

    def _stepped(self, step: int) -> None:
        state, cycle = self._wanted(step)
        if not self._is_theirs and not self._is_in_other_thread():
            self._is_over |= (self._state, state) == (RECORDING, OFF)
            self._move(state, cycle)
        if not self._settings["schedule"] and step == DEFAULT_STEPS + 1 and self._is_over:
            is_other = self._process.record.get("profiles_itself")
            whose = "lorabench's own recording ends with" if is_other else "torch.profiler recorded"
            self._process.note(
                f"{whose} the first {DEFAULT_STEPS} {self._clock.steps_named}; choose others by --wait-steps and "
                "--active-steps"
            )

    def _move(self, state: int, cycle: int) -> None:
        """Go from what is being done to what is to be done; to another cycle through its end."""
        if self._state == RECORDING and (state != RECORDING or cycle != self._cycle):
            self._stop()
        if self._state == OFF and state != OFF:
            self._called(self._prepare)
        if self._state == PREPARED and state == RECORDING:
            self._called(self._profiler.start_trace)
            self._first_step = self._clock.count
            self._state = RECORDING
        self._cycle = cycle

    def _called(self, function: Any) -> None:
        self._is_calling = True
        try:
            function()
        finally:
            self._is_calling = False

    def _prepare(self) -> None:
        with_stack, is_memory = self._settings["with_stack"], self._settings["pass"] == "memory"
        options: Dict[str, Any] = {"verbose": True} if with_stack else {}
        configured = None if is_memory else _of_all_threads(options)  # torch tells the memory of one thread alone
        self._thread = threading.get_ident() if configured is None else None
        if configured is None and options:
            configured = torch._C._profiler._ExperimentalConfig(**options)
        self._profiler = torch.profiler.profile(
            record_shapes=self._settings["with_shapes"], with_stack=with_stack, profile_memory=is_memory,
            experimental_config=configured,
        )  # fmt: skip
        self._profiler.prepare_trace()
        self._state = PREPARED

    def _stop(self) -> None:
        """Stop recording and write the trace; the thread that is recorded alone does, else it goes on to the end."""
        if self._state == OFF:
            return
        if self._is_in_other_thread():
            return
        was, self._state = self._state, OFF
        rank, world = self._process.record["rank"], self._process.record["world_size"]
        if rank is not None:
            torch.autograd._add_metadata_json("distributedInfo", json.dumps({"rank": rank, "world_size": world}))
        if was == PREPARED:
            self._called(self._profiler.start_trace)
        self._called(self._profiler.stop_trace)
        if was == RECORDING:
            path = self._next_path()
            self._called(functools.partial(self._profiler.export_chrome_trace, path))
            self._add(path, self._first_step, self._clock.count, "lorabench")
        self._profiler = None
        self._clock.restart()

    def _is_in_other_thread(self) -> bool:
        """Whether another thread is recorded, alone; that is noted."""
        if self._state == OFF or self._thread in (None, threading.get_ident()):
            return False
        self._process.note(OTHER_THREAD)
        return True

    def _next_path(self) -> str:
        return self._process.path(f".{len(self._process.record['traces']) + 1}.json.gz")

    def _add(self, path: str, first: int, last: int, whose: str) -> None:
        self._process.record["traces"].append(
            {"file": os.path.basename(path), "first_step": first, "step_cnt": last - first, "by": whose}
        )
        self._process.write()

    def _finish(self) -> None:
        if not self._is_theirs:
            self._stop()
        for kept in self._theirs:
            if kept["result"] is not None:
                path = self._process.path(".theirs.json")
                kept["result"].save(path)
                self._take(path, kept)
                os.remove(path)

    # The script's own profilers

    def _before_theirs(self, function: Any) -> Any:
        @functools.wraps(function)
        def begin(*arguments: Any, **named: Any) -> Any:
            if not self._is_calling and not self._is_theirs and self._process.is_own:
                with self._process.surviving("making way for the script's own profiler"):
                    self._clock.settle()
                    self._stop()
                self._is_theirs, self._first_step = True, self._clock.count
                self._process.record["profiles_itself"] = True  # gathered.py tells what came of it
            return function(*arguments, **named)

        return begin

    def _after_theirs(self, function: Any) -> Any:
        @functools.wraps(function)
        def end(*arguments: Any, **named: Any) -> Any:
            result = function(*arguments, **named)
            if not self._is_calling and self._is_theirs:
                self._clock.settle()
                self._is_theirs, self._resumes = False, True
                self._theirs.append({"result": result, "first": self._first_step, "last": self._clock.count})
                if not hasattr(result, "save"):
                    self._theirs.pop()  # of emit_nvtx and the like
                del self._theirs[:-_MOST_KEPT]
            return result

        return end

    def _copied(self, function: Any) -> Any:
        @functools.wraps(function)
        def export_chrome_trace(own: Any, path: Any, *more: Any, **named: Any) -> Any:
            done = function(own, path, *more, **named)
            if not self._is_calling and self._process.is_own:
                for kept in self._theirs:
                    if kept["result"] is not None and kept["result"] is own.kineto_results:
                        self._take(path, kept)
            return done

        return export_chrome_trace

    def _take(self, path: Any, kept: Dict[str, Any]) -> None:
        """Keep a copy of a trace that the script recorded."""
        kept["result"] = None
        try:
            target = self._next_path()
            with open(path, "rb") as source, gzip.open(target, "wb", compresslevel=1) as copy:
                shutil.copyfileobj(source, copy)
            self._add(target, kept["first"], kept["last"], "script")
        except OSError:
            self._process.failed("the script's own trace was not copied")

    def _at_safe_point(self) -> None:
        """Record what begins: after the script's own profiler has ended, not within its end, which is not over yet; and
        without what was recorded before the training, where that is much.
        """
        early_since, self._early_since = self._early_since, None
        with self._process.surviving("recording again"):
            if early_since is not None and time.monotonic() - early_since > _EARLY_S:
                self._restart()
            if self._resumes and not self._is_theirs:  # another of the script's may have begun at once
                self._resumes = False
                self._move(*self._wanted(self._clock.count))

    def _restart(self) -> None:
        """Begin anew without what was recorded; of a training without it the memory would be unknown."""
        if self._state != RECORDING or self._is_theirs or self._thread is not None:
            return
        self._state, self._resumes = OFF, True
        self._called(self._profiler.stop_trace)
        self._profiler = None
        self._process.note(f"what ran before the training began, for more than {_EARLY_S:.0f} s, is not in the trace")

    def _rest(self) -> None:
        """In a forked child: most of them load data, and would record until their memory is full.

        CUDA's profiler is not to be asked to stop there: no thread of it came along.
        """
        if self._state != OFF and not torch.cuda.is_initialized():
            self._state = OFF
            self._disable()
            torch_profiler._run_on_profiler_stop()
        torch._C._autograd._enable_record_function(False)
        if self._settings["with_stack"]:
            sys.setprofile(None)

    def _begin_forked(self) -> None:
        """In a forked child that trains: end the profiler that it inherited, and begin with its own."""
        torch._C._autograd._enable_record_function(True)
        if self._state != OFF or self._is_theirs:
            self._disable()
            torch_profiler._run_on_profiler_stop()
        self._state, self._is_theirs, self._resumes, self._profiler = OFF, False, False, None
        self._early_since = None
        self._theirs.clear()
        with self._process.surviving("recording a forked process"):
            self._move(*self._wanted(0))


def _of_all_threads(options: Dict[str, Any]) -> Any:
    """What configures torch's profiler to record every thread; None from a torch that cannot."""
    try:
        return torch._C._profiler._ExperimentalConfig(profile_all_threads=True, **options)
    except TypeError:
        return None


def tell_of_others(process: Process, name: str) -> None:
    """Note when the script profiles itself in a pass that does not record with torch."""
    function = torch_profiler._enable_profiler

    @functools.wraps(function)
    def begin(*arguments: Any, **named: Any) -> Any:
        process.note(f"the script's own profiler ran in the {name} pass, too, and is in its times")
        return function(*arguments, **named)

    setattr(torch_profiler, "_enable_profiler", begin)  # noqa: B010
