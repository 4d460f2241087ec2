"""Signals, kills and full disks at any moment: outputs are whole or as they were, and nothing stays behind."""

import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from caches import cache_in
from conftest import quick
from lorabench import unfinished

Make = Callable[..., Path]


@pytest.fixture
def sqlite(synthetic_trace: Make, tmp_path: Path) -> Path:
    return Path(shutil.copy(synthetic_trace("nsys"), tmp_path / "run.sqlite"))


def command(tmp_path: Path, *words: object) -> tuple[list[str], dict[str, str]]:
    environment = os.environ | {"XDG_CACHE_HOME": cache_in(tmp_path)}
    return [sys.executable, "-m", "lorabench", *map(str, words)], environment


def run(tmp_path: Path, *words: object, **options: object) -> subprocess.CompletedProcess[str]:
    line, environment = command(tmp_path, *words)
    return subprocess.run(line, env=environment, capture_output=True, text=True, check=False, timeout=120, **options)  # type: ignore[call-overload,no-any-return]


def small_files(limit: int) -> Callable[[], None]:
    """Make every write beyond `limit` bytes of a file fail, as on a full disk."""

    def before_exec() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return before_exec


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


FULL_DISKS = [
    (["analyze", "-o", "r.csv"], 60_000),
    (["analyze", "-o", "r.duckdb"], 800_000),
    (["report", "-o", "r.html"], 20_000),
    *((["analyze", "-o", "r.csv"], limit) for limit in (0, 1_600_000)),
    (["analyze", "-o", "r.duckdb"], 0),
    (["report", "-o", "r.html"], 1_600_000),
]


@pytest.mark.parametrize(("words", "limit"), quick(2, FULL_DISKS))
@pytest.mark.slow
def test_a_full_disk_leaves_the_earlier_output_whole(
    limit: int, words: list[str], sqlite: Path, tmp_path: Path
) -> None:
    name, *options = words
    assert run(tmp_path, name, sqlite, *options, cwd=tmp_path).returncode == 0
    before = contents(tmp_path)
    done = run(tmp_path, name, sqlite, *options, "--force", cwd=tmp_path, preexec_fn=small_files(limit))
    assert done.returncode == 5, done.stderr
    assert done.stderr.count("\n") == 1
    assert contents(tmp_path) == before


def seconds(tmp_path: Path, *words: object) -> float:
    begin = time.monotonic()
    assert run(tmp_path, *words).returncode == 0
    return time.monotonic() - begin


INTERRUPTED_AS_IT_OPENS = """
import signal, sys
trace, number = sys.argv[1], int(sys.argv[2])
sys.addaudithook(lambda event, given: event == "open" and str(given[0]) == trace and signal.raise_signal(number))
from lorabench.__main__ import main
sys.argv = ["lorabench", "summary", trace]
main()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_a_commands_own_code_is_said(number: signal.Signals, sqlite: Path, tmp_path: Path) -> None:
    """typer makes an exit of it, without a word."""
    environment = os.environ | {"XDG_CACHE_HOME": cache_in(tmp_path)}
    line = [sys.executable, "-c", INTERRUPTED_AS_IT_OPENS, str(sqlite), str(int(number))]
    done = subprocess.run(line, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (128 + number, "lorabench: interrupted; nothing was changed\n")


INTERRUPTIONS = [
    (signal.SIGINT, "r.csv", 1), (signal.SIGKILL, "r.csv", 1), (signal.SIGKILL, "r.csv", 2), (signal.SIGTERM, "all", 1),
    (signal.SIGINT, "r.html", 1),
]  # fmt: skip


@pytest.mark.parametrize(("number", "output", "times"), quick(1, INTERRUPTIONS))
def test_a_signal_at_any_moment_leaves_the_earlier_output_whole(
    number: signal.Signals, output: str, times: int, synthetic_trace: Make, sqlite: Path, tmp_path: Path
) -> None:
    """The later run reads a larger trace: its output is another one, so that a half-written file would be seen."""
    out = tmp_path / "out"
    out.mkdir()
    long = synthetic_trace("nsys", steps=8, layers=8, adapters=4)
    took = seconds(tmp_path, "analyze", long, "-o", out / output, "--force")
    after = contents(out)
    assert run(tmp_path, "analyze", sqlite, "-o", out / output).returncode == 0
    before = contents(out)
    draw = random.Random(f"{number} {output}")
    for _ in range(times):
        line, environment = command(tmp_path, "analyze", long, "-o", out / output, "--force", "--quiet")
        process = subprocess.Popen(line, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(draw.uniform(0.1, 0.9) * took)
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
        assert "Traceback" not in said
        assert process.returncode in (0, -number, 128 + number)
        if process.returncode > 0:
            assert said == "lorabench: interrupted; nothing was changed\n"
        kept = {name: content for name, content in contents(out).items() if not Path(name).name.startswith(".")}
        assert kept.keys() == before.keys()
        assert all(content in (before[name], after[name]) for name, content in kept.items())
    assert run(tmp_path, "analyze", long, "-o", out / output, "--force").returncode == 0
    assert contents(out) == after, "what a killed process left is gone"
    left = [path for path in (tmp_path / "cache").rglob("*") if "partial" in path.name]
    assert left == []


def test_files_of_the_living_and_of_other_machines_are_left_alone(tmp_path: Path) -> None:
    target = tmp_path / "report.csv"
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        mine = unfinished.beside(target)
        pid, machine = f"-{os.getpid()}-", mine.name.split(".")[3].split("-")[0]
        theirs = mine.with_name(mine.name.replace(pid, f"-{other.pid}-"))
        elsewhere = mine.with_name(mine.name.replace(machine, "0a1b2c").replace(pid, "-999999999-"))
        dead = mine.with_name(mine.name.replace(pid, "-999999999-"))
        reused = theirs.with_name(theirs.name.replace(".partial", ".partial.wal"))
        unlike = tmp_path / ".report.csv.partial"
        for path in (mine, theirs, elsewhere, dead, reused, unlike):
            path.write_bytes(b"x")
        os.utime(reused, (1, 1))  # written before the process with this number began
        unfinished.remove_left(tmp_path, "other.csv")
        assert dead.exists()
        unfinished.beside(target)
        assert sorted(tmp_path.iterdir()) == sorted([mine, theirs, elsewhere, unlike])
        other.communicate(b"\n")
    unfinished.beside(target)
    assert not theirs.exists()
