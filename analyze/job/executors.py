"""Who reads the inputs of a job: processes of this machine, this one's share of them, or the workers of a Dask cluster.

All call unit.complete() for each input, so any of them may be killed and another one go on.
"""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

from ...errors import UsageError
from .folder import Task

VARIABLE = "LORABENCH_EXECUTOR"


@dataclass(frozen=True)
class Executor:
    """Who reads: 'local', a 'shard' or 'dask'."""

    kind: str = "local"
    worker_cnt: int | None = None
    shard: tuple[int, int] = (1, 1)
    address: str = ""

    def share(self, tasks: Sequence[Task]) -> list[Task]:
        """Those of the inputs that are to be read here: each N-th of a shard, all of the others."""
        number, count = self.shard
        return list(tasks[number - 1 :: count])


def chosen(workers: int | None, shard: str | None, dask: str | None, *, environ: bool = True) -> Executor | None:
    """The executor that options name, else LORABENCH_EXECUTOR; None when neither does. Raises UsageError for two."""
    named = [
        name for name, value in (("--workers", workers), ("--shard", shard), ("--dask", dask)) if value is not None
    ]
    if len(named) > 1:
        raise UsageError(f"choose one of {' and '.join(named)}")
    if workers is not None:
        return Executor(worker_cnt=_count(str(workers), "--workers"))
    if shard is not None:
        return Executor("shard", shard=_shard(shard, "--shard"))
    if dask is not None:
        return Executor("dask", address=_address(dask, "--dask"))
    return _of_variable(os.environ.get(VARIABLE, "")) if environ else None


def _of_variable(text: str) -> Executor | None:
    kind, _, value = text.partition(":")
    said = f"{VARIABLE}={text}:"
    if kind == "shard":
        return Executor("shard", shard=_shard(value, said))
    if kind == "dask" and value:
        return Executor("dask", address=_address(value, said))
    if kind == "local":
        return Executor(worker_cnt=_count(value, said) if value else None)
    if text:
        raise UsageError(f"{said} write local:4, shard:1/8 or dask:tcp://HOST:8786")
    return None


def _count(text: str, said: str) -> int:
    if not text.isdigit() or not int(text):
        raise UsageError(f"{said} {text}: write a number of processes, like 4")
    return int(text)


def _address(text: str, said: str) -> str:
    """A scheduler's address. One without a port would be tried for a minute."""
    if not re.fullmatch(r"([a-z]+://)?.+:\d+/?.*", text):
        raise UsageError(f"{said} {text}: write the scheduler's address, like tcp://HOST:8786")
    return text


def _shard(text: str, said: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        count = int(found[2]) if found else 0
        form = f"from 1/{count} to {count}/{count}" if count else "like 1/8, the first of eight"
        raise UsageError(f"{said} {text}: write I/N, {form}")
    return int(found[1]), int(found[2])
