"""Attacks on `lorabench collect`: one of its processes ends by a signal at any moment, the command itself included.

Afterwards no process is left, and the run directory is one that `analyze` reads, or says in a line why not.
"""

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil

_PASSES = ("timing", "torch", "nsys", "memory", "timing,torch", "timing,torch,nsys,memory")
_SMALL = ("--seq-len", "16", "--batch-size", "2", "--steps", "15", "--warmup", "1", "--device", "cpu")
_PATIENCE_S = 150  # what was killed may have been nothing that the run needed, and then it goes on to its end
_SCRIPT = """
import subprocess, sys, torch
other = subprocess.Popen([sys.executable, __file__, "alone"]) if len(sys.argv) == 1 and WITH_OTHER else None
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.AdamW(model.parameters())
for step in range(300):
    model(torch.randn(16, 64)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
if other is not None:
    sys.exit(other.wait())
"""


def script(draw: random.Random, folder: Path) -> Path:
    """A training script, with a second process or without."""
    path = folder / "train.py"
    path.write_text(_SCRIPT.replace("WITH_OTHER", str(draw.random() < 0.5)))
    return path


def killed_run(draw: random.Random, path: Path, place: Path) -> str:
    """How a run ended of which one process got a signal: 'read', 'refused', or what is wrong."""
    run, said = place / "run", place / "said"
    words = [sys.executable, "-m", "lorabench", "collect", "-o", str(run), "--no-report"]
    words += ["--profiler", draw.choice(_PASSES)]
    words += draw.choice([list(_SMALL), ["--", sys.executable, str(path)]])
    with said.open("wb") as stream:
        process = subprocess.Popen(
            words, stdout=stream, stderr=stream, stdin=subprocess.DEVNULL, start_new_session=True,
            env=os.environ | {"OMP_NUM_THREADS": "1", "XDG_CACHE_HOME": str(place / "cache")},
        )  # fmt: skip
    family = _sleep_among(process.pid, draw.uniform(0.1, 25))
    alive = [p for p in family if _is_alive(p)]
    number = draw.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
    victim = draw.choice(alive) if alive else None
    if victim is not None:
        with suppress(psutil.NoSuchProcess):
            victim.send_signal(number)
    about = f"{number.name} to {' '.join(words)} ({'itself' if victim and victim.pid == process.pid else 'a child'})"
    try:
        process.wait(_PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return f"{about}: does not end"
    if left := _left(family, place):
        return f"{about}: left behind {left}"
    text = said.read_text("utf-8", errors="replace")
    ended = (0, 7, 130, 143) + ((-number,) if victim and victim.pid == process.pid else ())
    if process.returncode not in ended or "lorabench/__main__.py" in text:
        return f"{about}: exit code {process.returncode}: {text[-2000:]}"
    if not run.exists():
        return "refused" if process.returncode else f"{about}: no run directory"
    return _analyzed(run, place) or "read"


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:  # it ended between the two
        return False


def _sleep_among(pid: int, seconds: float) -> list[psutil.Process]:
    """The process and all that it starts in the meantime."""
    seen: dict[int, psutil.Process] = {}
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with suppress(psutil.NoSuchProcess):
            root = psutil.Process(pid)
            seen |= {p.pid: p for p in (root, *root.children(recursive=True)) if p.pid not in seen}
            if root.status() == psutil.STATUS_ZOMBIE:
                break
        time.sleep(0.05)
    return list(seen.values())


def _left(family: list[psutil.Process], place: Path) -> list[str]:
    """Command lines of what still runs after a while."""
    end = time.monotonic() + 20
    left: list[str] = []
    while time.monotonic() < end:
        left = [line for p in {*family, *psutil.process_iter()} if (line := _line_of(p, family, place))]
        if not left:
            break
        time.sleep(0.2)
    return left


def _line_of(process: psutil.Process, family: list[psutil.Process], place: Path) -> str:
    try:
        line = " ".join(process.cmdline())
        is_ours = process in family or str(place) in line
        is_alive = process.is_running() and process.status() != psutil.STATUS_ZOMBIE
        return line if is_ours and is_alive and process.pid != os.getpid() else ""
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return ""


def _analyzed(run: Path, place: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "lorabench", "analyze", str(run), "-o", str(place / "r.csv")],
        env=os.environ | {"XDG_CACHE_HOME": str(place / "cache")}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    is_fine = done.returncode in (0, 3) and "Traceback" not in done.stderr
    return "" if is_fine else f"analyze: exit code {done.returncode}: {done.stderr[-2000:]}"
