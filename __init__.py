"""lorabench: where a LoRA fine-tuning run spends its time and memory.

import lorabench
with lorabench.open("run.sqlite") as profile:
    print(profile)
    print(profile.view("range_summary"))

In a notebook `%load_ext lorabench` adds the magic `%%lorabench`, which profiles a cell.

In a training script, to name what a trace shows (needs torch):

lorabench.annotate(model)
with lorabench.span("loss"):
    ...

To record a part of it (lorabench.integrations has the same as callbacks):

with lorabench.profile("run", model=model) as run:
    for batch in data:
        ...
        run.step()
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .collect.instruments.ranges import annotate
    from .collect.instruments.spans import span
    from .collect.scripts.inside import Profiling
    from .profiles import Profile

    __version__: str

__all__ = ["__version__", "annotate", "load_ipython_extension", "open", "profile", "span"]


def open(
    *inputs: "str | Path", db: "str | Path | None" = None, force: bool = False, rank: int | None = None
) -> "Profile":
    """Open traces, a run directory, a job folder or a .duckdb file for questions.

    Traces are read into a database at `db`, by default one in the user's cache folder; it is reused while the inputs
    are unchanged, unless `force`. `rank`: of several ranks the one that the answer and the page are of, and of a job
    folder the one whose events views have. The result shows the answer, has .view(name), .sql(select) and
    .what_if(change), which return polars DataFrames, and is a context manager. Raises errors.LorabenchError.
    """
    from .errors import UsageError
    from .profiles import Profile

    for given in inputs or [""]:
        if not isinstance(given, (str, Path)) or not str(given):
            raise UsageError("lorabench.open() takes paths one after another, as open('run.sqlite') or open(*paths)")
    return Profile([Path(i) for i in inputs], Path(db) if db else None, force, rank)


def profile(
    path: "str | Path", schedule: "Callable[[int], Any] | dict[str, int] | None" = None, model: Any = None,
    memory: bool = False, stacks: bool = False, force: bool = False,
) -> "Profiling":  # fmt: skip
    """Record a part of a training script with torch.profiler into a run directory: a context manager.

    schedule: of torch.profiler.schedule, or its arguments as a dict; then call .step() at the end of each step, and
    the steps that it does not record are timed. Without one everything inside is recorded. model: annotated inside, as
    by lorabench.annotate. memory: record allocations. Each rank of a distributed job calls it, with the same path.
    Raises errors.UsageError when `path` exists, unless `force`.
    """
    from .collect.scripts.inside import Profiling

    return Profiling(Path(path), schedule, model, memory, stacks, force)


def load_ipython_extension(shell: Any) -> None:
    """What `%load_ext lorabench` calls: adds the magic %%lorabench, which profiles a cell."""
    from .notebook import register

    register(shell)


def __dir__() -> list[str]:
    """What the package offers, whether it is loaded or not, and nothing that it is made of."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


def __getattr__(name: str) -> Any:
    """What takes time to load is loaded when it is asked for: annotate and span need torch."""
    if name == "__version__":
        from .version import installed

        return installed()
    if name == "annotate":
        from .collect.instruments.ranges import annotate

        return annotate
    if name == "span":
        from .collect.instruments.spans import span

        return span
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
