"""DuckDB's settings and memory for each part of the work, and what it raises when a disk is full."""

import os
import re

import duckdb

from ...errors import UsageError


def _asked(variable: str, shape: str, example: str) -> str | None:
    """What an environment variable asks for. Raises UsageError for what is of another shape."""
    value = os.environ.get(variable)
    if value and not re.fullmatch(shape, value, re.IGNORECASE):
        raise UsageError(f"{variable}={value}: write {example}")
    return value or None


_SIZE = r"\d+(\.\d+)?\s*([kmgt]i?)?b"

# DuckDB spills what does not fit. While a file is read, a piece of it must fit in full. A table is inserted by two
# threads where the limit is 18 MB for each column, though they take a tenth of that: gpu_op has 25. While sums are
# computed little is needed beside their arrays; to sort and take medians of the rows, more. Medians do not spill: a
# statement that needs more still gets most of the machine's memory, unless somebody asked for a limit.
_INGEST_MEMORY = _asked("LORABENCH_INGEST_MEMORY", _SIZE, "a size, like 2GB")
READ_MEMORY = _INGEST_MEMORY or "384MB"
INSERT_MEMORY = _INGEST_MEMORY or "460MB"
COMPLETE_MEMORY = _INGEST_MEMORY or "192MB"
QUERY_MEMORY_ASKED = _asked("LORABENCH_QUERY_MEMORY", _SIZE, "a size, like 4GB")
QUERY_MEMORY = QUERY_MEMORY_ASKED or "1500MB"

# Of a smaller database each statement takes longer to share out among threads than it gains by them.
SMALL_BYTES = 16 << 20

# Nothing is ever downloaded or loaded from outside the package.
SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    # duckdb 2.0.0 fails with it on unions of large views ("dict-surviving join: build pipeline is not single-source")
    "disabled_optimizers": "projection_pullup",
}
_THREADS_VARIABLE = "LORABENCH_THREADS"
if _THREADS := _asked(_THREADS_VARIABLE, r"[1-9]\d{0,3}", "how many, like 4"):
    SETTINGS["threads"] = int(_THREADS)


def share(worker_cnt: int) -> dict[str, str]:
    """The environment of one of so many processes: with an equal share of the cores, unless somebody said how many."""
    cores = max(1, len(os.sched_getaffinity(0)) // worker_cnt)
    return {_THREADS_VARIABLE: str(cores)} | os.environ


# What DuckDB raises on a full disk, depending on whether a row group, the log or the checkpoint was being written.
CANNOT_SPILL = (duckdb.IOException, duckdb.FatalException, duckdb.TransactionException)
CANNOT_WRITE = (*CANNOT_SPILL, OSError)


def first_line(error: BaseException) -> str:
    """The first line of what DuckDB or the operating system says."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error).splitlines()[0] if str(error) else type(error).__name__
