"""Runs the processes of a pass: output into a log, a time limit, and nothing left behind, however it ends."""

import contextlib
import os
import re
import selectors
import shutil
import signal
import stat
import subprocess
import sys
import time
import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psutil

from ...errors import ToolError
from . import guard

_GRACE_S = 10
_LATE_S = 5  # of the guard, beyond the grace
_DRAIN_S = 0.5  # for what is still in the pipes of a command that has ended
_PAUSE_S = 0.2
_TAIL_LINES = 200
_CHUNK_BYTES = 65_536
_MARK = "LORABENCH_COMMAND"  # in the environment of all processes of a command
_RANK = re.compile(r"^\[rank\d+\]:\s?")  # torch's own mark of who says a line
_NOISE = re.compile(
    r"\s|.*\d%\||\S+:\d+: \w*Warning: |USDT:|lorabench: |\[W\d|W\d{4} |warnings\.warn|Failed to load CPU gemm_4bit"
)


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
        how = f"it died of signal {-self.code}" if self.code < 0 else f"it ended with exit code {self.code}"
        return how + (f": {self.last_words}" if self.last_words else "")


def run(
    command: list[str], environment: dict[str, str], log: Path, timeout_s: float, heard: Callable[[str], None],
    shown: Callable[[bool, bytes], None] | None = None, grace_s: float = _GRACE_S,
) -> Ended:  # fmt: skip
    """Run a command in a session of its own; every line that it writes goes to the log and to `heard`.

    `shown`, for somebody's own command, gets its output as it comes: whether it is stderr, and bytes, none at its end.
    The last words are then those on stderr, and Ctrl-C reaches it as SIGINT.
    Whatever stops the wait (the time limit, Ctrl-C) ends all its processes first, within `grace_s`; Ctrl-C meanwhile at
    once. Raises ToolError when the command cannot be started.
    """
    if why := why_not_started(command, environment.get("PATH")):
        raise ToolError(why)
    words = [sys.executable, "-I", "-S", guard.__file__, str(grace_s), *command]
    mark = uuid.uuid4().hex
    process = subprocess.Popen(
        words, env=environment | {_MARK: mark}, stdin=_stdin(), stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if shown is None else subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        with log.open("ab") as file:
            ears = _Ears(process, file, heard, shown)
            try:
                expired = ears.listen(timeout_s)
            except KeyboardInterrupt:
                if shown is not None:  # it may save what it has, and say so
                    process.send_signal(signal.SIGINT)
                    ears.listen(grace_s + _LATE_S)
                raise
        code = process.wait()
    finally:
        _end(process, grace_s, mark)
    return Ended(code, expired, last_words(list(ears.lines)))


def why_not_started(command: list[str], path: str | None) -> str:
    """Why a command cannot be started, and what to type instead; empty if it can."""
    program = command[0]
    if shutil.which(program, path=path) is not None:
        return ""
    if not Path(program).exists():
        is_quoted = len(command) == 1 and len(program.split()) > 1
        why = f"no such program; leave out the quotes: -- {program}" if is_quoted else "no such program"
    elif Path(program).is_dir():
        why = "it is a folder, not a program"
    elif program.endswith(".py"):
        why = f"it is not executable; run it by Python: -- python {program}"
    elif os.sep in program:
        why = f"it is not executable; `chmod +x {program}` makes it so, if it is a program"
    else:
        why = f"no program of this name is in PATH; the one in this folder is -- ./{program}"
    return f"cannot start {program}: {why}"


class _Ears:
    """Listens to a process until it has ended, not until its pipes have: somebody else may hold them."""

    def __init__(
        self, process: "subprocess.Popen[bytes]", log: IO[bytes], heard: Callable[[str], None],
        shown: Callable[[bool, bytes], None] | None,
    ):  # fmt: skip
        self.lines: deque[str] = deque(maxlen=_TAIL_LINES)  # of stderr, or of both where they are one
        self._process, self._log, self._heard, self._shown = process, log, heard, shown
        self._begun = {False: b"", True: b""}  # a line whose end has not come yet

    def listen(self, timeout_s: float) -> bool:
        """Until the end, which is brought about at the time limit; whether it was."""
        deadline = time.monotonic() + timeout_s
        is_expired, ended_s = False, None
        with selectors.DefaultSelector() as selector:
            for pipe, is_error in ((self._process.stdout, False), (self._process.stderr, True)):
                if pipe is not None:
                    selector.register(pipe, selectors.EVENT_READ, is_error)
            while selector.get_map():
                for key, _ in selector.select(_PAUSE_S):
                    if not self._take(key.fd, key.data):
                        selector.unregister(key.fileobj)
                now = time.monotonic()
                if now > deadline and not is_expired:
                    is_expired = True
                    self._process.terminate()
                if ended_s is None and self._process.poll() is not None:
                    ended_s = now
                if ended_s is not None and now > ended_s + _DRAIN_S:
                    break
        for is_error, rest in self._begun.items():
            if rest:
                self._line(is_error, rest)
        return is_expired

    def _take(self, descriptor: int, is_error: bool) -> bool:
        """What there is in a pipe; whether it is still open."""
        data = os.read(descriptor, _CHUNK_BYTES)
        self._log.write(data)
        self._log.flush()
        if self._shown is not None:
            self._shown(is_error, data)
        *lines, self._begun[is_error] = re.split(rb"[\r\n]+", self._begun[is_error] + data)
        for line in lines:
            self._line(is_error, line)
        return bool(data)

    def _line(self, is_error: bool, data: bytes) -> None:
        line = data.decode("utf-8", errors="replace")
        if is_error or self._shown is None:
            self.lines.append(line)
        self._heard(line)


def last_words(lines: list[str]) -> str:
    """Of what a process wrote last the line that says why it ended: of a traceback the exception, never a warning."""
    said = [text for line in lines if (text := _RANK.sub("", line).rstrip())]
    starts = [n for n, line in enumerate(said) if line.startswith("Traceback (most recent call last)")]
    if starts:
        found = next((line for line in said[starts[-1] + 1 :] if not line[0].isspace()), None)
        if found is not None:
            return found
    return next((line.strip() for line in reversed(said) if not _NOISE.match(line)), "")


def _stdin() -> int:
    """What a command reads: a file in the keyboard's place, from its start, as each pass reads it; else nothing."""
    with contextlib.suppress(OSError):
        if stat.S_ISREG(os.fstat(0).st_mode):
            os.lseek(0, 0, os.SEEK_SET)
            return 0
    return subprocess.DEVNULL


def _end(process: "subprocess.Popen[bytes]", grace_s: float, mark: str) -> None:
    """See that nothing of a command is left. Another Ctrl-C meanwhile has the guard kill instead of asking."""
    interrupted: KeyboardInterrupt | None = None
    while process.poll() is None:
        try:
            process.terminate()
            process.wait(grace_s + _LATE_S)
        except subprocess.TimeoutExpired:
            process.kill()
        except KeyboardInterrupt as error:
            interrupted = error
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    _kill_marked(mark)
    if interrupted is not None:
        raise interrupted


def _kill_marked(mark: str) -> None:
    """Kill what is left of a command, in whatever session: nothing, unless its guard was killed."""
    for process in _living(lambda p: p.environ().get(_MARK) == mark):
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
