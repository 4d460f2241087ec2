"""lorabench: where a LoRA fine-tuning run spends its time and memory.

import lorabench
with lorabench.open("run.sqlite") as database:
    print(database.view("range_summary"))

In a training script, to name what a trace shows (needs torch):

lorabench.annotate(model)
with lorabench.span("loss"):
    ...
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .analyze.store.database import Database
    from .collect.instruments.ranges import annotate
    from .collect.instruments.spans import span

    __version__: str

__all__ = ["__version__", "annotate", "open", "span"]


def open(*inputs: "str | Path", db: "str | Path | None" = None, force: bool = False) -> "Database":
    """Open traces, a run directory or a .duckdb file for questions.

    Traces are read into a database at `db`, by default one in the user's cache folder; it is reused while the inputs
    are unchanged, unless `force`. The result has .view(name) and .query(sql), both returning polars DataFrames, and
    is a context manager. Raises errors.LorabenchError.
    """
    from .analyze.pipeline import analyze

    return analyze([Path(i) for i in inputs], Path(db) if db else None, force=force)


def __getattr__(name: str) -> Any:
    """What takes time to load is loaded when it is asked for: annotate and span need torch."""
    if name == "__version__":
        return _version()
    if name == "annotate":
        from .collect.instruments.ranges import annotate

        return annotate
    if name == "span":
        from .collect.instruments.spans import span

        return span
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("lorabench")
    except PackageNotFoundError:  # a checkout that was never installed
        return "0+unknown"
