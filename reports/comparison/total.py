"""How all that is compared changed, and which row has most of it."""

from collections.abc import Sequence
from typing import Any

from ..tables import units
from .compared import ALIKE, FEW, GONE, MIX, NEW, RENAMED_TO, SAME, Asked, Row, letter, outermost
from .spread import NEXT_TO_NOTHING

_WORDS = {
    "kernel_ns": "GPU time in kernels", "gpu_op_ns": "GPU time", "self_gpu_ns": "GPU time of operators",
    "wall_ns": "CPU time",
    "self_cpu_ns": "CPU time", "call_ns": "time in API calls", "idle_ns": "idle GPU time", "busy_ns": "busy GPU time",
    "saving_ns": "time that could be saved", "live_bytes": "live memory",
    "length_ns": "time of a step",
}  # fmt: skip
_WHY = {
    SAME: "steps differ among themselves as much", FEW: "few steps, far out, make it",
    MIX: "another share of its steps only evaluates",
}  # fmt: skip
_NAME = 60  # characters of a name within a sentence
_TELLING = 0.1  # of the whole change: a row that has less does not say where it comes from
_EXPLAINS = 0.5  # of a change within noise: rows that have as much of it, by more than their own noise, are no noise
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
    if first[f"{name} is"] in ALIKE:
        text = f"{what}: {SAME} found, {cells[0]} and {cells[1]}{each}: {_WHY[first[f'{name} is']]}"
        changed, most = beyond_noise(rows, names, number)
        if most is not None and changed / (after - before) >= _EXPLAINS:
            text += f", but not in {_short(_named(most, names, labels))} ({_signed(ending, most[f'{name} Δ'])})"
        return text
    text = f"{what}: {cells[0]} -> {cells[1]}{each} ({after / before - 1:+.1%})"
    if abs(after / before - 1) < NEXT_TO_NOTHING:
        return text

    most, share, is_module = _most(rows, names, number, elsewhere)
    if most is None or most[f"{name} is"] in ALIKE or share / (after - before) < _TELLING:
        return text
    launched = "launched in " if any(elsewhere) and not is_module else ""
    return f"{text}, most of all {launched}{_short(_named(most, names, labels))} ({_signed(ending, share)})"


def beyond_noise(rows: list[Row], names: list[str], number: int) -> tuple[float, Row | None]:
    """By how much the rows changed together that changed by more than noise, and the one that did most; 0 for steps.

    Of ranges those that are in no other of them.
    """
    name = names[number]
    if "step" in rows[0]:
        return 0.0, None
    found = [row for row in rows[1:] if row[f"{name} Δ"] and _is_beyond(row, names[0], name)]
    paths = outermost(row["path"] for row in found if row.get("path"))
    outer = [row for row in found if not row.get("path") or row["path"] in paths]
    changed = float(sum(row[f"{name} Δ"] for row in outer))
    same_way = [row for row in outer if row[f"{name} Δ"] * changed > 0]
    return changed, max(same_way, key=lambda row: abs(row[f"{name} Δ"]), default=None)


def _is_beyond(row: Row, first: str, name: str) -> bool:
    """Whether a row changed by more than its noise, which is known."""
    measured = {"": (first, name), NEW: (name,), GONE: (first,)}.get(row[f"{name} is"])
    return measured is not None and all(row.get(f"{of} spread") is not None for of in measured)


def _named(row: Row, names: list[str], labels: dict[str, str]) -> str:
    keys = [key for key in list(row)[: list(row).index(names[0])] if key != RENAMED_TO]
    named = " ".join(labels.get(row[key], str(row[key])) for key in keys if row[key] is not None)
    return f"device {named}" if keys == ["device_id"] else named


def _signed(ending: str, change: float) -> str:
    unit, (text,) = units.scaled(ending, [change], signed=True)
    return f"{text} {unit}".rstrip()


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
    telling = _telling(parts, rows[0], (names[0], name))
    if any(elsewhere):
        modules = [
            row for row in telling
            if row[f"{name} is"] not in ALIKE and _AS_MUCH <= row[f"{name} Δ"] / whole <= 1 / _AS_MUCH
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


def _telling(rows: list[Row], whole: Row, names: tuple[str, str]) -> list[Row]:
    """The rows without outermost ranges that have others inside and nearly all of an input: that the step changed is
    said already.
    """
    paths = [str(row[column]) for row in rows for column in ("path", RENAMED_TO) if row.get(column)]
    around = {path.partition("/")[0] for path in paths if "/" in path}
    return [
        row
        for row in rows
        if row.get("path") not in around or all((row[name] or 0) < _AS_MUCH * (whole[name] or 0) for name in names)
    ]


def _short(name: str) -> str:
    return name if len(name) <= _NAME else f"{name[: _NAME // 2]}…{name[-_NAME // 2 :]}"


def words(measure: str) -> str:
    """What a measure is called in a sentence."""
    return _WORDS.get(measure, measure.replace("_", " ").removesuffix(" ns").removesuffix(" cnt"))
