"""lorabench: where a LoRA fine-tuning run spends its time and memory.

import lorabench
with lorabench.open("run.sqlite") as database:
    print(database.view("range_summary"))
"""

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .analyze.database import Database

try:
    __version__ = version("lorabench")
except PackageNotFoundError:  # a checkout that was never installed
    __version__ = "0+unknown"


def open(*inputs: "str | Path", db: "str | Path | None" = None, force: bool = False) -> "Database":
    """Open traces, a run directory or a .duckdb file for questions.

    Traces are read into a database at `db`, by default one in the user's cache folder; it is reused while the inputs
    are unchanged, unless `force`. The result has .view(name) and .query(sql), both returning polars DataFrames, and
    is a context manager. Raises errors.LorabenchError.
    """
    from .analyze.database import cache_path
    from .analyze.pipeline import analyze

    paths = [Path(i) for i in inputs]
    return analyze(paths, Path(db) if db else cache_path(paths), force=force)
