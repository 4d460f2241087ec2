"""Runs the processes of a pass: output into a log, a time limit, and nothing left behind, however it ends."""

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psutil

from ...errors import ToolError

_GRACE_S = 10


@dataclass(frozen=True)
class Ended:
    """How a process ended: its exit code, negative for a signal, and the last words of its log."""

    code: int
    timed_out: bool
    last_words: str

    @property
    def reason(self) -> str:
        """The end in one line."""
        if self.timed_out:
            return "it was stopped after the time limit (--timeout-s)"
        if self.code == -signal.SIGKILL:
            return "it was killed (signal 9); the system does that when memory runs out"
        if self.code < 0:
            return f"it died of signal {-self.code}"
        return f"it ended with exit code {self.code}" + (f": {self.last_words}" if self.last_words else "")


def run(
    command: list[str], environment: dict[str, str], log: Path, timeout_s: float, heard: Callable[[str], None]
) -> Ended:
    """Run a command in a session of its own; every line that it writes goes to the log and to `heard`.

    Whatever stops the wait (the time limit, Ctrl-C) stops the whole session first. Raises ToolError when the command
    cannot be started.
    """
    try:
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace", start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise ToolError(f"cannot start {command[0]}: {error.strerror}") from error
    expired = threading.Event()

    def stop_late() -> None:
        expired.set()
        kill_session(process.pid)

    limit = threading.Timer(timeout_s, stop_late)
    limit.start()
    last = ""
    try:
        with log.open("a", encoding="utf-8") as file:
            last = _listen(process, file, heard)
        code = process.wait()
    finally:
        limit.cancel()
        kill_session(process.pid)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
    return Ended(code, expired.is_set(), last)


def _listen(process: "subprocess.Popen[str]", log: IO[str], heard: Callable[[str], None]) -> str:
    assert process.stdout is not None
    last = ""
    for line in process.stdout:
        log.write(line)
        log.flush()
        if line.strip() and not line.startswith("lorabench: "):
            last = line.strip()
        heard(line.rstrip("\n"))
    return last


def kill_session(leader: int) -> None:
    """End all processes of a session: ask, then insist."""
    for process in (asked := _living(lambda p: os.getsid(p.pid) == leader)):
        with contextlib.suppress(psutil.Error):
            process.terminate()
    _, left = psutil.wait_procs(asked, timeout=_GRACE_S)
    for process in (*left, *_living(lambda p: os.getsid(p.pid) == leader)):
        with contextlib.suppress(psutil.Error):
            process.kill()


def kill_mentioning(text: str) -> None:
    """End processes whose command line holds a text: the agent of nsys leaves the session that started it."""
    for process in _living(lambda p: p.pid != os.getpid() and any(text in word for word in p.cmdline())):
        with contextlib.suppress(psutil.Error):
            process.kill()


def _living(wanted: Callable[[psutil.Process], bool]) -> list[psutil.Process]:
    """Processes that are no zombies; those that vanish or may not be looked at are left out."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if wanted(process) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found
