"""The steps of a timing pass, written as they end: what is left of a pass whose process was killed."""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def writer(folder: Path, pass_name: str, suffix: str) -> Callable[[list[Row]], None]:
    """A function that appends the rows of a step to the file of a process (its suffix), one of several or alone.

    Where that cannot be written, as on a full disk, it is left: no pass ends for it.
    """
    path = folder / f".steps-{pass_name}{suffix}.jsonl"

    def keep(rows: list[Row]) -> None:
        text = "".join(json.dumps(row) + "\n" for row in rows)
        with suppress(OSError), path.open("a", encoding="utf-8") as file:
            file.write(text)

    return keep


def take(folder: Path, pass_name: str, rank_cnt: int | None) -> dict[str, Any] | None:
    """The steps that the processes of a pass left, as summary.steps_csv takes them; None where there are none.

    rank_cnt: of processes that train together; others have tasks of their own. The files are removed.
    """
    found: dict[str, list[Row]] = {}
    for path in sorted(folder.glob(f".steps-{pass_name}*.jsonl")):
        with suppress(OSError):
            found[path.name] = _rows(path)
            path.unlink()
    if not any(found.values()):
        return None
    if rank_cnt is None:
        return {"steps": sorted((row for rows in found.values() for row in rows), key=lambda row: row["start_ns"])}
    ranks = [found.get(f".steps-{pass_name}-rank{number}.jsonl", []) for number in range(rank_cnt)]
    return {"steps": [], "ranks": [{"steps": rows} for rows in ranks]}


def _rows(path: Path) -> list[Row]:
    """The whole lines: one that was cut off is left out."""
    found: list[Row] = []
    for line in path.read_text("utf-8", "replace").splitlines():
        with suppress(ValueError):
            found.append(json.loads(line))
    return found
