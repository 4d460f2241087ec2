"""The harness of hostile input: a command in a process of its own, whose memory and time are held to a budget."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from caches import cache_in


class Ran:
    """How a command ended, and the most memory that it and the processes that it started held at a time."""

    def __init__(self, words: list[str], environment: dict[str, str], timeout_s: float):
        self.peak_mb = 0.0
        begin = time.monotonic()
        with subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", env=environment
        ) as process:
            watcher = threading.Thread(target=self._watch, args=(process.pid,), daemon=True)
            watcher.start()
            try:
                self.out, self.err = process.communicate(timeout=timeout_s)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        watcher.join()
        self.code, self.took_s = process.returncode, time.monotonic() - begin

    def _watch(self, pid: int) -> None:
        while True:
            try:
                family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
                self.peak_mb = max(self.peak_mb, sum(p.memory_info().rss for p in family) / 1e6)
                if family[0].status() == psutil.STATUS_ZOMBIE:
                    return
            except psutil.NoSuchProcess:
                return
            time.sleep(0.02)  # looking for children takes milliseconds of its own


@pytest.fixture
def bounded(tmp_path: Path) -> Callable[..., Ran]:
    """Analyzes an input within so much memory and time; it ends with one of the codes, and without a traceback."""

    def run(
        path: Path, *options: object, memory_mb: float, code: int | tuple[int, ...] = 0, timeout_s: float = 100
    ) -> Ran:
        environment = os.environ | {"XDG_CACHE_HOME": cache_in(tmp_path)}
        options = options or ("analyze", path, "-o", tmp_path / "bounded.csv")
        ran = Ran([sys.executable, "-m", "lorabench", *map(str, options)], environment, timeout_s)
        codes = code if isinstance(code, tuple) else (code,)
        assert ran.code in codes, ran.err[-2000:]
        assert "Traceback" not in ran.err
        assert ran.peak_mb < memory_mb
        return ran

    return run
