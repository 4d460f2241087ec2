"""Processes of one pass, begun together: one for each adapter or rank. When one ends badly all end, and it is named."""

import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from ... import rundir
from ...errors import LorabenchError

OUT_OF_MEMORY = "out of memory ("
_LOST_PEER = re.compile(r"[Cc]onnection (closed|reset)|[Bb]roken pipe|remote process exited|Socket closed")

Line = tuple[int, str | None]  # of the worker of this number; None when it has closed its output


@dataclass(frozen=True)
class Worker:
    """One process: what it trains, its command line, and where it leaves its result."""

    name: str
    command: list[str]
    result_path: Path
    environment: dict[str, str] = field(default_factory=dict)  # besides what this process has


def run(workers: list[Worker], ready: str, go: str, patience_s: float = 0) -> None:
    """Start all, let them go when each has said `ready`, and return when all have ended well.

    Raises LorabenchError, or MemoryError, as soon as one has not; the others are stopped. Those that train together
    with it notice, and get `patience_s` to write what they recorded.
    """
    started = [
        subprocess.Popen(
            w.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | w.environment
        )
        for w in workers
    ]
    lines: queue.Queue[Line] = queue.Queue()
    for number, process in enumerate(started):
        threading.Thread(target=_listen, args=(number, process, lines), daemon=True).start()
    try:
        waiting, running = set(range(len(started))), set(range(len(started)))
        while running:
            number, line = lines.get()
            if line is None:
                running.remove(number)
                code = started[number].wait()
                if failure := _failure(workers[number], code):
                    _let_end(started, patience_s)
                    raise _cause(failure, workers, started)
            elif line.strip() != ready:
                sys.stdout.write(line)
                sys.stdout.flush()
            else:
                waiting.remove(number)
                if not waiting:
                    _let_go(started, go)
    finally:
        for process in started:
            process.kill()
            process.wait()
            assert process.stdin is not None
            with suppress(BrokenPipeError):
                process.stdin.close()


def _listen(number: int, process: "subprocess.Popen[str]", lines: "queue.Queue[Line]") -> None:
    assert process.stdout is not None
    with process.stdout:
        for line in process.stdout:
            lines.put((number, line))
    lines.put((number, None))


def _let_go(started: "list[subprocess.Popen[str]]", go: str) -> None:
    for process in started:
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # it has died, which its output will tell
            process.stdin.write(go + "\n")
            process.stdin.flush()


def _let_end(started: "list[subprocess.Popen[str]]", patience_s: float) -> None:
    """Wait for processes that may end by themselves; one that still waits to be let go has nothing to wait for."""
    until = time.monotonic() + patience_s
    if patience_s:
        _let_go(started, "")
    while time.monotonic() < until and any(process.poll() is None for process in started):
        time.sleep(0.05)


def _failure(worker: Worker, code: int) -> LorabenchError | MemoryError | None:
    """What a worker died of; None for one that ended well, or has measured something."""
    try:
        result = json.loads(worker.result_path.read_text("utf-8"))
    except (OSError, json.JSONDecodeError):
        how = f"by signal {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        return LorabenchError(f"the process of {worker.name} died {how}")
    if result["status"] == rundir.OOM:
        return MemoryError(f"{worker.name}: {result['message'].removeprefix(OUT_OF_MEMORY).split(');')[0]}")
    if result["status"] != rundir.OK and "steps" not in result:
        return LorabenchError(f"{worker.name}: {result['message']}")
    return None


def _cause(
    first: LorabenchError | MemoryError, workers: list[Worker], started: "list[subprocess.Popen[str]]"
) -> LorabenchError | MemoryError:
    """What ended the run: not a worker that lost its peer, but that peer."""
    if not _LOST_PEER.search(str(first)):
        return first
    ended = [(w, code) for w, p in zip(workers, started, strict=True) if (code := p.poll()) is not None]
    failures = [failure for w, code in ended if (failure := _failure(w, code))]
    return next((f for f in failures if not _LOST_PEER.search(str(f))), first)
