"""A job on a Dask cluster of two workers: one is killed, an input is poisonous, a second run finds all."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from caches import cache_in
from conftest import absent
from lorabench import modules
from lorabench.analyze.job import running
from simulated_ranks import Job, simulate

_CLUSTER = """
import sys
from distributed import LocalCluster
if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, processes=True) as cluster:
        pids = [nanny.pid for nanny in cluster.workers.values()]
        print(cluster.scheduler_address, *pids, flush=True)
        sys.stdin.read()
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[str, list[int]]]:
    """The address of a scheduler and the processes of its two workers."""
    if find_spec("distributed") is None:
        absent("dask", "Dask is not installed: pip install 'lorabench[dask]'")
    program = tmp_path / "cluster.py"
    program.write_text(_CLUSTER)
    with subprocess.Popen(
        [sys.executable, str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        text=True, env=os.environ | {"XDG_CACHE_HOME": cache_in(tmp_path)}, cwd=tmp_path,
    ) as process:  # fmt: skip
        assert process.stdin is not None and process.stdout is not None
        address, *pids = process.stdout.readline().split()
        yield address, [int(pid) for pid in pids]
        process.stdin.close()


def started(*words: object, cache: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        modules.command("lorabench", *map(str, words)), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=os.environ | {"XDG_CACHE_HOME": str(cache)},
    )  # fmt: skip


@pytest.mark.slow
def test_a_worker_that_is_killed_and_a_poisonous_file_cost_nothing_else(
    cluster: tuple[str, list[int]], tmp_path: Path, run_command: Callable[..., Any]
) -> None:
    address, pids = cluster
    simulate(Job(ranks=5, steps=2)).write(tmp_path / "ranks")
    (tmp_path / "ranks" / "rank3.json").write_bytes(b"no trace at all")
    place = tmp_path / "job"
    process = started("analyze", tmp_path / "ranks", "-o", place, "--dask", address, cache=tmp_path / "cache")
    while not list(place.glob("inputs/*/result.arrows.xz")) and process.poll() is None:
        time.sleep(0.05)
    os.kill(pids[0], signal.SIGKILL)
    out, err = process.communicate(timeout=100)
    assert process.returncode == 3, err
    # what the killed worker had begun is read again, or was finished by its process
    counted = re.search(r"5 inputs: (\d) read, (\d) found finished, 1 lost", err)
    assert counted and sum(map(int, counted.groups())) == 4 and f"wrote {place}" in out, err
    assert f"rank3.json: {tmp_path}/ranks/rank3.json is neither an nsys export" in err
    said = run_command("query", place, "select count(*) as cnt from rank_summary", "--csv").out
    assert said.split() == ["cnt", "4"]
    done = started("analyze", tmp_path / "ranks", "-o", place, "--dask", address, cache=tmp_path / "cache")
    _, err = done.communicate(timeout=100)
    assert done.returncode == 3 and "5 inputs: 0 read, 4 found finished, 1 lost" in err


def test_a_scheduler_that_does_not_answer_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_command: Callable[..., Any]
) -> None:
    if find_spec("distributed") is None:
        absent("dask", "Dask is not installed: pip install 'lorabench[dask]'")
    simulate(Job(ranks=2, steps=1)).write(tmp_path / "ranks")
    monkeypatch.setattr(running, "_ANSWERS_S", 1)
    words = ("analyze", tmp_path / "ranks", "-o", tmp_path / "job", "--dask", "tcp://127.0.0.1:9", "-q")
    err = run_command(*words, code=4).err
    assert err.startswith("lorabench: no Dask scheduler answers at tcp://127.0.0.1:9") and err.count("\n") == 1
