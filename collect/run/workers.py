"""Process mode: a process for each adapter, begun together; when one ends badly all end, and it is the one named."""

import json
import queue
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ... import rundir
from ...errors import LorabenchError

OUT_OF_MEMORY = "out of memory ("

Line = tuple[int, str | None]  # of the worker of this number; None when it has closed its output


@dataclass(frozen=True)
class Worker:
    """One process: what it trains, its command line, and where it leaves its result."""

    name: str
    command: list[str]
    result_path: Path


def run(workers: list[Worker], ready: str, go: str) -> None:
    """Start all, let them go when each has said `ready`, and return when all have ended well.

    Raises LorabenchError, or MemoryError, as soon as one has not; the others are stopped.
    """
    started = [
        subprocess.Popen(w.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for w in workers
    ]  # fmt: skip
    lines: queue.Queue[Line] = queue.Queue()
    for number, process in enumerate(started):
        threading.Thread(target=_listen, args=(number, process, lines), daemon=True).start()
    try:
        waiting, running = set(range(len(started))), set(range(len(started)))
        while running:
            number, line = lines.get()
            if line is None:
                running.remove(number)
                _require(workers[number], started[number].wait())
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


def _listen(number: int, process: "subprocess.Popen[str]", lines: "queue.Queue[Line]") -> None:
    assert process.stdout is not None
    for line in process.stdout:
        lines.put((number, line))
    lines.put((number, None))


def _let_go(started: "list[subprocess.Popen[str]]", go: str) -> None:
    for process in started:
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # it has died, which its output will tell
            process.stdin.write(go + "\n")
            process.stdin.flush()


def _require(worker: Worker, code: int) -> None:
    """Raise what a worker died of."""
    try:
        result = json.loads(worker.result_path.read_text("utf-8"))
    except (OSError, json.JSONDecodeError) as error:
        how = f"by signal {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        raise LorabenchError(f"the process of {worker.name} died {how}") from error
    if result["status"] == rundir.OOM:
        raise MemoryError(f"{worker.name}: {result['message'].removeprefix(OUT_OF_MEMORY).split(');')[0]}")
    if result["status"] != rundir.OK and "steps" not in result:
        raise LorabenchError(f"{worker.name}: {result['message']}")
