"""Exports of nsys' reports while they are read: each is made once, for all that read it, and goes at the end."""

from contextlib import ExitStack
from pathlib import Path

from ...progress import Progress


class Exports:
    """The exports that one analysis has made so far. Use as a context manager."""

    def __init__(self, progress: Progress):
        self._progress = progress
        self._made: dict[Path, Path] = {}
        self._folders = ExitStack()

    def __enter__(self) -> "Exports":
        return self

    def __exit__(self, *_: object) -> None:
        self._folders.close()

    def of(self, report: Path) -> Path:
        """The export of a report. Raises ToolError when nsys is missing, too old for the report or fails."""
        if report not in self._made:
            from . import nsys_report

            self._progress.step("nsys export")
            self._made[report] = self._folders.enter_context(nsys_report.exported(report))
        return self._made[report]

    def made_of(self, report: Path) -> Path | None:
        """The export of a report that has been made, None for others."""
        return self._made.get(report)
