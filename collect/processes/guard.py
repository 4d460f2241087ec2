"""Runs a command and ends with it, leaving none of its processes behind, whoever is killed meanwhile.

Usage: python -I -S guard.py GRACE_S COMMAND…; the standard library only, a few milliseconds.

    lorabench ─► guard ─► command ─► what it starts, also in sessions of its own (nsys' agent, daemons)

Orphans below the guard become its children (PR_SET_CHILD_SUBREAPER), so it finds them all. When the command has ended
it ends the rest and then itself in the same way, by exit code or signal. SIGTERM ends the command: asked first, killed
after GRACE_S, or at the second signal. SIGINT asks by SIGINT, as a terminal does, and by SIGTERM at half of GRACE_S.
When lorabench dies the kernel tells the guard (PR_SET_PDEATHSIG), and it kills all.
"""

import ctypes
import os
import resource
import signal
import sys
import time
from contextlib import suppress

_DEATHSIG, _SUBREAPER = 1, 36  # of prctl
_ORPHANED = signal.SIGUSR1
_PAUSE_S = 0.02
_REST_S = 1.0  # what a background process gets to end after its command

_asked: list[int] = []


def main() -> None:
    """Run the command; never returns."""
    grace_s, words = float(sys.argv[1]), sys.argv[2:]
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, _ORPHANED):
        signal.signal(number, lambda received, _: _asked.append(received))
    parent = os.getppid()
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    prctl(_SUBREAPER, 1, 0, 0, 0)
    prctl(_DEATHSIG, _ORPHANED, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)  # it died before the kernel knew
    try:
        child = os.posix_spawnp(
            words[0], words, os.environ,
            setsigdef=[signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGPIPE],
        )  # fmt: skip
    except OSError as error:
        sys.stderr.write(f"lorabench: cannot start {words[0]}: {error.strerror}\n")
        os._exit(127)
    status = _wait(child, grace_s)
    _end_rest(grace_s if _asked else _REST_S)
    _end_as(status)


def _wait(child: int, grace_s: float) -> int:
    """Wait for the command, and end it when that is asked for. Its wait status."""
    deadline: float | None = None
    is_polite = False  # asked by SIGINT alone so far
    while True:
        # orphans that ended are reaped in passing, or they would fill the table of processes
        with suppress(ChildProcessError):
            ended, status = os.waitpid(-1, os.WNOHANG)
            if ended == child:
                return status
            if ended:
                continue
        if _asked and deadline is None:
            deadline = time.monotonic() + grace_s
            is_polite = _asked[0] == signal.SIGINT
            _signal_all(signal.SIGINT if is_polite else signal.SIGTERM)
        if is_polite and deadline is not None and time.monotonic() > deadline - grace_s / 2:
            is_polite = False
            _signal_all(signal.SIGTERM)
        is_insisted = _ORPHANED in _asked or len(_asked) > 1
        if deadline is not None and (is_insisted or time.monotonic() > deadline):
            _signal_all(signal.SIGKILL)
        time.sleep(_PAUSE_S)


def _end_rest(grace_s: float) -> None:
    """End what the command left behind."""
    deadline = time.monotonic() + grace_s
    if not _asked:
        _signal_all(signal.SIGTERM)
    while _descendants():
        if time.monotonic() > deadline or len(_asked) > 1 or _ORPHANED in _asked:
            _signal_all(signal.SIGKILL)
        time.sleep(_PAUSE_S)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _end_as(status: int) -> None:
    if os.WIFSIGNALED(status):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        number = os.WTERMSIG(status)
        with suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def _signal_all(number: int) -> None:
    for pid in _descendants():
        with suppress(OSError):
            os.kill(pid, number)


def _descendants() -> list[int]:
    """All living processes below this one."""
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError, ValueError, IndexError):
                with open(f"/proc/{name}/stat", "rb") as file:
                    state, parent = file.read().rpartition(b")")[2].split()[:2]
                if state not in (b"Z", b"X"):
                    parents[int(name)] = int(parent)
    found = {os.getpid()}
    grown = True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in found and pid not in found}
        grown = bool(more)
        found |= more
    return sorted(found - {os.getpid()})


if __name__ == "__main__":
    main()
