"""This process: who it is, how it ends, and the record of both that it leaves for the command that started everything.

Invariant: what is to be done at the end is done once, in the process that began it (not in its forked children),
however that ends: normally, by an exception, sys.exit, os._exit, exec, SIGTERM. Nothing can be done about other
signals: then the record says that it began.
"""

import atexit
import functools
import json
import os
import signal
import sys
import time
import traceback
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, List

_LAUNCHING_MODULES = ("torch.distributed.run", "torch.distributed.launch", "accelerate.commands", "deepspeed.launcher")
_LAUNCHERS = ("torchrun", "accelerate", "accelerate-launch", "deepspeed")
# Modules of which one says what a training loop was written with, where it is loaded.
_TRAINERS = (
    "trl.trainer.sft_trainer", "trl.trainer.dpo_trainer", "trl.trainer.grpo_trainer", "transformers.trainer",
    "lightning.pytorch.trainer.trainer", "pytorch_lightning.trainer.trainer",
)  # fmt: skip
_ACCELERATE = "accelerate.accelerator"  # which peft loads, too: it counts where the script has a name of it
_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")
_RANKS = (("RANK", "WORLD_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE"),
          ("SLURM_PROCID", "SLURM_NTASKS"))  # fmt: skip


class Process:
    """The record of one process, and the functions to call when it ends."""

    def __init__(self, folder: str):
        self.folder = folder
        self._at_end: List[Callable[[], None]] = []
        self._after_fork: List[Callable[[], None]] = []
        self.record: Dict[str, Any] = {}
        self.pid = 0
        self.ending = ""  # how, as soon as that is known
        self._is_ending = False

    def begin(self) -> None:
        """Begin the record of the process that calls this; a forked child that does something calls it anew."""
        self.pid = os.getpid()
        self.name = f"{self.pid}-{time.time_ns()}"
        self._is_ending = False
        rank, world = _of_environment()
        self.record = {
            "pid": self.pid, "parent": os.getppid(), "words": words(), "python": sys.version.split()[0],
            "rank": rank, "world_size": world, "ended": None, "error": None, "traces": [], "notes": [],
            "is_worker": _is_worker(),
        }  # fmt: skip
        self.write()

    def path(self, suffix: str) -> str:
        """A file of this process."""
        return os.path.join(self.folder, self.name + suffix)

    def write(self) -> None:
        """Write the record, whole or not at all."""
        path = self.path(".json")
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump(self.record, file)
        os.replace(path + ".new", path)

    def note(self, text: str) -> None:
        """A line for whoever reads the run; each once."""
        if text not in self.record.setdefault("notes", []):
            self.record["notes"].append(text)

    @contextmanager
    def surviving(self, what: str) -> Iterator[None]:
        """The script goes on whatever of ours fails inside; it is noted."""
        try:
            yield
        except Exception:  # of any kind: a script that runs without us must run with us
            self.failed(what)

    def failed(self, what: str) -> None:
        """Note the exception that is being handled: it is the hook's, not the script's."""
        said = traceback.format_exc().strip().splitlines()
        self.note(f"{what}: {said[-1]}")
        if os.environ.get("LORABENCH_HOOK_DEBUG"):
            sys.stderr.write("\n".join(said) + "\n")

    @property
    def is_own(self) -> bool:
        """Whether this is still the process that began, and not a forked child."""
        return self.pid == os.getpid()

    def at_end(self, function: Callable[[], None]) -> None:
        """Call the function when the process ends."""
        self._at_end.append(function)

    def after_fork(self, function: Callable[[], None]) -> None:
        """Call the function in each forked child."""
        self._after_fork.append(function)

    def finish(self, how: str) -> None:
        """Do what is to be done at the end, once."""
        if self._is_ending or not self.is_own:
            return
        self._is_ending, self.ending = True, how
        for function in self._at_end:
            try:
                function()
            except BaseException:
                self.failed("at the end")
        self.record["frameworks"] = frameworks()
        self.record["ended"] = how
        try:
            self.write()
        except OSError as error:
            sys.stderr.write(f"lorabench: cannot write what this process measured: {error}\n")

    def watch(self) -> None:
        """Be called at each of its ends. At the import of torch, so that what the script registers runs before."""
        atexit.register(self.finish, "exit")
        os.register_at_fork(after_in_child=self._forked)
        os._exit = self._before(os._exit, "os._exit", lambda *arguments, **named: True)
        for name in ("execv", "execve"):
            setattr(os, name, self._before(getattr(os, name), "exec", _can_be_run))
        hook = sys.excepthook

        def excepthook(kind: Any, value: Any, trace: Any) -> None:
            self.record["error"] = said_of(kind, value)
            hook(kind, value, trace)

        sys.excepthook = excepthook
        try:
            if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
                signal.signal(signal.SIGTERM, self._terminated)
        except ValueError:
            pass  # torch was imported by another thread than the main one

    def _before(self, function: Any, how: str, ends: Callable[..., bool]) -> Any:
        """The function, before which this process finishes where the call `ends` it."""

        @functools.wraps(function)
        def ending(*arguments: Any, **named: Any) -> Any:
            if ends(*arguments, **named):
                self.finish(how)
            return function(*arguments, **named)

        return ending

    def _terminated(self, number: int, frame: Any) -> None:
        if self._is_ending and self.is_own:
            return  # it is being written
        self.finish("SIGTERM")
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)

    def _forked(self) -> None:
        for function in self._after_fork:
            try:
                function()
            except BaseException:
                self.failed("in a forked child")


def words() -> List[str]:
    """What follows the interpreter and its options on the command line: script.py or -m module, and arguments."""
    rest = list(getattr(sys, "orig_argv", [sys.executable, *getattr(sys, "argv", [])]))[1:]
    while rest and rest[0].startswith("-") and not rest[0].startswith(("-m", "-c")) and rest[0] != "-":
        del rest[: 2 if rest[0] in _WITH_VALUE else 1]
    return rest


def frameworks() -> List[str]:
    """The modules that say what this process trained with."""
    loaded = [name for name in _TRAINERS if name in sys.modules]
    names = list(vars(sys.modules.get("__main__", sys)).values())
    kinds = [value if isinstance(value, type) else type(value) for value in names]  # nothing that a value may compute
    return loaded + ([_ACCELERATE] if any(kind.__module__ == _ACCELERATE for kind in kinds) else [])


def is_launcher() -> bool:
    """Whether this process only starts others, as torchrun does."""
    rest = words()
    if rest and rest[0].startswith("-m"):
        module = rest[0][2:] or (rest[1] if len(rest) > 1 else "")
        return module.startswith(_LAUNCHING_MODULES)
    return bool(rest) and os.path.basename(rest[0]) in _LAUNCHERS


def _is_worker() -> bool:
    """Whether multiprocessing made this process, by spawn, by a server that forks, or by fork."""
    from multiprocessing import parent_process

    return parent_process() is not None or any(word.startswith("from multiprocessing.") for word in words())


def _can_be_run(path: Any, *arguments: Any, **named: Any) -> bool:
    """Whether a process can become this program: os.execvp tries each folder of PATH, and a script may try several."""
    try:
        return isinstance(path, int) or (os.path.isfile(path) and os.access(path, os.X_OK))
    except (TypeError, ValueError):
        return False


def _of_environment() -> "tuple[int | None, int | None]":
    """Rank and size of a job as its launcher tells, None for a process that is alone."""
    for rank, world in _RANKS:
        values = os.environ.get(rank, ""), os.environ.get(world, "")
        if all(value.isdigit() for value in values) and int(values[1]) > 1:
            return int(values[0]), int(values[1])
    return None, None


def said_of(kind: Any, value: Any) -> str:
    """An exception in a line; that of torchrun, which says nothing there, with what ended the first of its ranks."""
    said = traceback.format_exception_only(kind, value)[-1].strip().splitlines()[0].rstrip()
    if said.endswith(":") and hasattr(value, "get_first_failure"):
        rank, failure = value.get_first_failure()
        said += f" rank {rank}: {failure.message}"
    return said
