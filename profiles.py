"""What `lorabench.open` returns: a trace, or several, that answer questions in a shell, a script and a notebook."""

import functools
import html
import re
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from .errors import UsageError

if TYPE_CHECKING:
    import polars

    from .analyze.store.database import Database


_F = TypeVar("_F", bound=Callable[..., Any])
_CALLED = {"rank": "rank", "change": ".what_if()"}  # options, by which errors call what was given


def _in_turn(method: _F) -> _F:
    """The method of a Profile, which threads call one after another."""

    @functools.wraps(method)
    def called(self: "Profile", *arguments: Any, **named: Any) -> Any:
        with self._lock:
            try:
                return method(self, *arguments, **named)
            except UsageError as error:
                raise UsageError(_in_python(str(error))) from error

    return cast(_F, called)


class Profile:
    """Opened traces. In a shell and in a notebook it shows the answer; a context manager, or call close().

    Threads may share one: they take turns.
    """

    def __init__(self, inputs: Sequence[Path], db: Path | None = None, force: bool = False, rank: int | None = None):
        from .analyze.job.folder import Wanted
        from .analyze.pipeline import analyze

        self._inputs, self._rank, self._is_closed = list(inputs), rank, False
        self._lock = threading.RLock()
        self._database = analyze(self._inputs, db, force=force, is_kept=db is not None, wanted=Wanted(rank))

    def __enter__(self) -> "Profile":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @_in_turn
    def close(self) -> None:
        """Release the file of the database."""
        self._is_closed = True
        self._database.close()

    @property
    def views(self) -> list[str]:
        """The names of the views; `lorabench views` says what their rows and columns are."""
        from . import sql

        return [view.name for view in sql.public()]

    @_in_turn
    def view(self, name: str) -> "polars.DataFrame":
        """All rows of a view as a polars DataFrame. Raises UsageError with names like it when there is none."""
        _check_text("view", "the name of a view", name)
        return self._opened().view(name)

    @_in_turn
    def sql(self, statement: str) -> "polars.DataFrame":
        """The result of a select as a polars DataFrame. Raises UsageError with DuckDB's words when it fails."""
        _check_text("sql", "a select", statement)
        return self._opened().query(statement)

    @_in_turn
    def what_if(self, *changes: str) -> "polars.DataFrame":
        """What changes made together would save, as rows of the view what_if; the standard changes without any.

        Changes are written as for `lorabench what-if --change`: "graph=step/forward", "scale=matmul:0.5". Raises
        UsageError for what is no change, and for a place that is not there.
        """
        from .analyze.predict.predictions import what_if

        for change in changes:
            _check_text("what_if", "changes one after another", change)
        return what_if(self._opened(), changes)

    @_in_turn
    def summary(self) -> dict[str, Any]:
        """Where the time goes and what to do first, as `lorabench summary --json` prints it."""
        from .reports.answer.answer import answer

        return answer(self._opened(), self._rank)

    @_in_turn
    def report(self, path: "str | Path") -> Path:
        """Write the page to a file; its path. Raises UsageError for one that is no .html, OutputError when it cannot be
        written.
        """
        from .reports.page import page

        if Path(path).suffix not in (".html", ".htm"):
            raise UsageError(f"{path}: the page is HTML; name it .html")
        page.write(self._opened(), Path(path), rank=self._rank)
        return Path(path)

    def _opened(self) -> "Database":
        """The database. Raises UsageError when it is closed."""
        if self._is_closed:
            named = ", ".join(path.name for path in self._inputs)
            raise UsageError(f"the profile of {named} is closed; open it again: lorabench.open()")
        return self._database

    def __repr__(self) -> str:
        return "\n".join(self._lines())

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(repr(self))}</pre>"

    @_in_turn
    def _lines(self) -> list[str]:
        from .console import visible
        from .reports.answer import answer_text, verdict_text

        if self._is_closed:
            return [f"<closed: {', '.join(path.name for path in self._inputs)}>"]
        found = self.summary()
        return [
            *(visible(_in_python(line)) for line in answer_text.lines(found)),
            *(visible(line) for line in verdict_text.losses(found)),
            "next: .view(name), .sql(select), .what_if(change), .report(path), .views",
        ]


def _in_python(line: str) -> str:
    """A line of the answer with what to call here in the place of options of the command line."""
    said = re.sub(r"--report (\w+)", r'.view("\1")', line.replace("--rank N", "open(…, rank=N)"))
    return re.sub(r"^--(rank|change) ", lambda found: f"{_CALLED[found[1]]} ", said)


def _check_text(method: str, what: str, given: Any) -> None:
    """Raise UsageError where what a method was given is no text."""
    if not isinstance(given, str):
        raise UsageError(f".{method}() takes {what}, as text; this is {given!r:.80}")
