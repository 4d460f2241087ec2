"""How all that is compared changed, and which row has most of it."""

from collections.abc import Sequence
from typing import Any

from ..tables import units
from .compared import RENAMED_TO, SAME, Asked, Row, letter
from .spread import NEXT_TO_NOTHING

_WORDS = {
    "kernel_ns": "GPU time in kernels", "gpu_op_ns": "GPU time", "self_gpu_ns": "GPU time of operators",
    "wall_ns": "CPU time",
    "self_cpu_ns": "CPU time", "call_ns": "time in CUDA calls", "idle_ns": "idle GPU time", "busy_ns": "busy GPU time",
    "saving_ns": "time that could be saved", "live_bytes": "live memory",
    "length_ns": "time of a step",
}  # fmt: skip
_NAME = 60  # characters of a name within a sentence
_TELLING = 0.1  # of the whole change: a row that has less does not say where it comes from
_AS_MUCH = 0.9  # of the largest change: what says where it comes from


def of_total(
    rows: list[Row], names: list[str], number: int, asked: Asked, labels: dict[str, str],
    elsewhere: Sequence[dict[tuple[Any, ...], float]],
) -> str:  # fmt: skip
    """How the first row of a table changed, and which row has most of it.

    Of ranges only what they launch says so, without what `elsewhere` has of them: the backward of what ran in them is
    in the ranges of the backward, too.
    """
    first, name = rows[0], names[number]
    before, after = first[names[0]] or 0.0, first[name] or 0.0
    ending = asked.measure.rpartition("_")[2]
    unit, cells = units.scaled(ending, [before, after])
    each = f" {unit}{' per step' if asked.is_per_step else ''}".replace("  ", " ")
    what = f"{words(asked.measure)} of {letter(number)}"
    if not before or not after:
        return f"{what}: {cells[0]} -> {cells[1]}{each}" if before or after else ""
    if before == after or cells[0] == cells[1]:
        return f"{what}: the same, {cells[0]}{each}"
    if first[f"{name} is"] == SAME:
        return f"{what}: {SAME} found, {cells[0]} and {cells[1]}{each}: steps differ among themselves as much"
    text = f"{what}: {cells[0]} -> {cells[1]}{each} ({after / before - 1:+.1%})"
    if abs(after / before - 1) < NEXT_TO_NOTHING:
        return text

    most, share, is_module = _most(rows, names, number, elsewhere)
    if most is None or most[f"{name} is"] == SAME or share / (after - before) < _TELLING:
        return text
    _, (change,) = units.scaled(ending, [share], signed=True)
    most_keys = [key for key in list(most)[: list(most).index(names[0])] if key != RENAMED_TO]
    keys = [labels.get(most[key], str(most[key])) for key in most_keys if most[key] is not None]
    most_unit, _ = units.scaled(ending, [share])
    launched = "launched in " if any(elsewhere) and not is_module else ""
    return f"{text}, most of all {launched}{_short(' '.join(keys))} ({change} {most_unit})".replace(" )", ")")


def _most(
    rows: list[Row], names: list[str], number: int, elsewhere: Sequence[dict[tuple[Any, ...], float]]
) -> tuple[Row | None, float, bool]:
    """The row that says where a change comes from, what of it, and whether that is with the backward of what ran in it.

    A range that has nearly all of it with the backward of what ran in it: the module. Else what has most of it by
    what it launches itself.
    """
    name = names[number]
    whole = (rows[0][name] or 0.0) - (rows[0][names[0]] or 0.0)

    def own(row: Row) -> float:
        key = (row.get("path"),)
        linked = elsewhere[1].get(key, 0.0) - elsewhere[0].get(key, 0.0) if elsewhere else 0.0
        return float(row[f"{name} Δ"] - linked)

    def innermost(found: list[Row]) -> Row:
        return max(found, key=lambda row: str(row["path"]).count("/"))

    parts = [] if len(rows) == 2 and "path" in rows[0] else rows[1:]  # a range that is alone is the whole
    telling = _telling(parts)
    if any(elsewhere):
        modules = [
            row for row in telling
            if row[f"{name} is"] != SAME and _AS_MUCH <= row[f"{name} Δ"] / whole <= 1 / _AS_MUCH
            and own(row) != row[f"{name} Δ"]  # its backward is launched elsewhere
            and (row[names[0]] or 0.0) < _AS_MUCH * rows[0][names[0]]  # else it is around everything
        ]  # fmt: skip
        if modules:
            module = innermost(modules)
            return module, float(module[f"{name} Δ"]), True
    most = max(telling, key=lambda row: abs(own(row))) if telling else None
    if most is not None and "path" in most:  # ranges nest: of those that changed as much the innermost says where
        most = innermost([row for row in telling if abs(own(row)) >= _AS_MUCH * abs(own(most))])
    return most, own(most) if most is not None else 0.0, False


def _telling(rows: list[Row]) -> list[Row]:
    """The rows without outermost ranges that have others inside: that the step changed is said already."""
    around = {str(row["path"]).partition("/")[0] for row in rows if "/" in str(row.get("path"))}
    return [row for row in rows if row.get("path") not in around]


def _short(name: str) -> str:
    return name if len(name) <= _NAME else f"{name[: _NAME // 2]}…{name[-_NAME // 2 :]}"


def words(measure: str) -> str:
    """What a measure is called in a sentence."""
    return _WORDS.get(measure, measure.replace("_", " ").removesuffix(" ns").removesuffix(" cnt"))
