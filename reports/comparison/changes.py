"""Traces side by side: a view of each, joined on what its rows are about, and how the others differ from the first."""

import re
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...analyze.job.folder import is_job
from ...analyze.pipeline import analyze
from ...analyze.store.database import Database
from ...errors import InputError, RegressionError, UsageError
from ...progress import Progress
from . import baselines, counted, of_rank, renamed, runs, total, verdict
from .by_step import of_rows, of_steps
from .compared import ALIKE, FEW, MIX, RENAMED_TO, SAME, Asked, Compared, Row, changes_of, letter, outermost
from .comparisons import COMPARISONS, LAUNCHED, Comparison, Values, choose, fitting, natural, of_one_device, values_of
from .counted import Spreads, Steps
from .spread import Spread, are_alike, are_alike_rows, centres, is_of_few_steps, is_of_other_steps

# Rows that are of the GPU alone.
_OF_GPU = ("kernel_summary", "kernel_class", "gpu_timeline_summary", "idle_summary")
TOTAL, MEDIAN = "(total)", "(median)"
BACKWARD_IS_APART = (
    "Not all of these inputs say which range the backward belongs to (sequence_kernel_ns): here ranges have what was "
    "launched in them."
)
_RANGES_HOLD_LITTLE = "Ranges hold less than half of the GPU time: rows are kernels; others by --by range, class, …"


def compare(
    databases: dict[str, Database], how: Comparison, scales: Sequence[float] = ()
) -> tuple[list[Row], list[str]]:
    """Rows of a table: first the total (of steps the median), then what changed most; and how much is left out of it.

    databases: by the name of their column. Values are for each step where every trace has steps, and have their spread
    over the steps beside them: warm ones alone, but for what is not known by step (devices, idle time), of which all
    counts. Behind each trace but the first stand its change against the first, absolute, as a fraction (NULL where the
    first has next to nothing) and as a share of all that changed, and whether the row is new, gone or changed by
    no more than noise. Rows that are 0 everywhere are left out. scales: a factor for each trace that puts all on one
    clock. Of two traces a kernel or range that has another name in the second is one row.
    """
    rows, spreads = _compared(databases, how, None, False, scales)
    cold = counted.cold(_steps([*databases.values()], how, False), spreads)
    return rows, [*counted.left_out(total.words(how.measure), spreads), *cold]


def _compared(
    databases: dict[str, Database], how: Comparison, only: str | None, totals: bool, scales: Sequence[float] = ()
) -> tuple[list[Row], list[Spreads]]:
    """The rows, and of each trace their spreads, which say how much of each lies in its steps.

    only: a regular expression that a key must match. totals: of all, not for each step. Raises UsageError for an
    expression that is none.
    """
    try:
        wanted = re.compile(only or "")
    except re.error as error:
        raise UsageError(f"--only {only} is not a regular expression: {error}") from error
    steps = _steps(list(databases.values()), how, totals)
    found, summed = [], []
    spreads: list[Spreads] = []
    for number, database in enumerate(databases.values()):
        count, scale = steps[number] if steps else counted.WHOLE, (scales or [1.0] * len(databases))[number]
        whole = {k: v for k, v in values_of(database, how).items() if wanted.search("/".join(map(str, k)))}
        outer = _outermost(whole) if how.view == "range_summary" and only is not None else whole
        widths = _spreads(database, how, None if only is None else whole.keys(), bool(steps))
        if len(outer) < len(whole):  # ranges nest: all together is what no other of them is around
            of_outer = _spreads(database, how, outer.keys(), bool(steps))
            widths = {k: v for k, v in widths.items() if k} | {k: v for k, v in of_outer.items() if not k}
        found.append({key: value * count.share(widths.get(key)) * scale for key, value in whole.items()})
        summed.append(_headline(database, how, outer, only is None, widths) * count.share(widths.get(())) * scale)
        spreads.append({key: width.scaled(scale) for key, width in widths.items()} if scale != 1 else widths)
        if how.view == "range_summary" and (compiled := renamed.of_compiled(database)):
            found[-1] = renamed.with_names(found[-1], compiled)
            spreads[-1] = renamed.with_names(spreads[-1], compiled)
    renamed_to = _joined(how, list(databases.values()), found, spreads)
    keys = sorted({key for values in found for key, value in values.items() if value},
                  key=lambda key: (-_largest_change(found, key), -abs(found[0].get(key, 0.0)), str(key)))  # fmt: skip
    names, head = list(databases), MEDIAN if how.view == "step_summary" else TOTAL

    changed = [_all_change(how, found[0], values) for values in found[1:]]

    def row(key: tuple[Any, ...], values: list[float | None]) -> Row:
        widths = [by_key[key].width if key in by_key else None for by_key in spreads]
        found_by = [by_key.get(key) for by_key in spreads]
        alike = [
            _likeness(how, (found_by[0], other), (value or 0.0) - (values[0] or 0.0))
            for other, value in zip(found_by[1:], values[1:], strict=True)
        ]
        named = dict(zip(how.keys, map(_text, key or (head, *[None] * (len(how.keys) - 1))), strict=True))
        also = {RENAMED_TO: renamed_to.get(key)} if how.view == "kernel_summary" or renamed_to else {}
        return named | also | changes_of(names, values, widths, summed[0], changed if key else [], alike)

    rows = [row((), list(summed)), *(row(key, [values.get(key) for values in found]) for key in keys)]
    return rows, spreads


def _likeness(how: Comparison, pair: tuple[Spread | None, Spread | None], change: float) -> str:
    """What is said of the change of a row if it is noise; "" where it is none, or too few steps say it."""
    if how.view == "step_summary":
        return SAME if all(pair) and are_alike(*pair) else ""  # type: ignore[arg-type]
    is_noise = are_alike_rows(*pair, change)
    if is_noise and not is_of_few_steps(*pair, change):
        return SAME
    if is_of_other_steps(*pair, change):
        return MIX
    return FEW if is_noise else ""


def compare_inputs(
    inputs: list[Path],
    by: str | None,
    measure: str | None,
    only: str | None,
    totals: bool,
    progress: Progress,
    rank: int | None = None,
    device: int | None = None,
) -> Compared:
    """The same for files and folders, each read into a database of its own, with the verdict.

    by: a name of COMPARISONS; None for what is natural. rank: of inputs with several the one to compare. device: of
    rows by device those of this one.
    """
    for path in inputs:
        if is_job(path):
            raise UsageError(f"{path} is a job folder, which compare does not read: give the traces that it is made of")
    if by is None and (measure is not None or only is not None):
        by = "range"
    asked, names = None if by is None else choose(by, measure), runs.names(inputs)
    with ExitStack() as stack:
        paths = [baselines.readable(path) for path in inputs]
        if rank is not None:
            paths = [of_rank.recording(path, rank, progress) for path in paths]
        opened = [stack.enter_context(analyze([path], progress=progress)) for path in paths]
        databases = dict(zip(names, opened, strict=True))
        by = by or natural(opened)
        how = fitting(asked or choose(by, None), databases)
        if device is not None:
            how = of_one_device(how, opened, device)
        _require_work(opened, how, by)
        rows, spreads = _compared(databases, how, only, totals)
        if by == "memory":
            _require_memory(names, rows[0])
        if only is not None and len(rows) == 1:
            raise UsageError(f"nothing by {by} is called {only} in any of these inputs: --only, --range")
        steps = _steps(opened, how, totals)
        compared = verdict.of_traces(
            inputs, databases, Asked(by, how.view, how.measure, bool(steps)), how.keys, rows,
            _labels(opened) if by == "kernel" else {}, _by_sequence(opened, how, steps, spreads, rows),
        )  # fmt: skip
        compared.notes.extend(f"{line}: --totals." for line in counted.left_out(total.words(how.measure), spreads))
        compared.notes.extend(f"{line}." for line in counted.cold(steps, spreads))
        if any(row[f"{name} is"] == MIX for row in rows for name in names[1:]):
            compared.notes.append(f"{counted.evaluating(spreads)}.")
        compared = replace(compared, has_cold=bool(counted.said_cold(steps)) and not counted.know_warm(spreads))
        if how.found_in == LAUNCHED:
            compared.notes.append(BACKWARD_IS_APART)
        if asked is None and by == "kernel":
            compared.notes.insert(0, _RANGES_HOLD_LITTLE)
        if by == "memory":
            compared.notes.extend([*_fullest(opened), *_moments(opened)])
        return compared if asked is None else replace(compared, steps=())


def _require_memory(names: Sequence[str], first: Row) -> None:
    """Raise InputError where an input has no memory recorded: that is not 0 bytes."""
    if without := [name for name in names if not first[name]]:
        raise InputError(
            f"{', '.join(without)}: no memory is recorded; collect with --profiler timing,memory, or in your "
            "own script torch.profiler.profile(profile_memory=True)"
        )


def _fullest(databases: Sequence[Database]) -> list[str]:
    """Which rank of each input its memory is of, where there are several."""
    found = []
    for number, database in enumerate(databases):
        rows = database.rows(
            "select rank from memory_peak where rank is not null group by rank order by sum(live_bytes) desc, rank"
        )
        found += [f"rank {rows[0][0]} of {letter(number)}"] if len(rows) > 1 else []
    return [f"Of several ranks memory is that of the one that needs most: {', '.join(found)}."] if found else []


def _moments(databases: Sequence[Database]) -> list[str]:
    """In which phases inputs have their peaks, where these differ."""
    found = [
        database.rows("select phase from memory_phase where peak_bytes is not null order by peak_bytes desc limit 1")
        for database in databases
    ]
    phases = [rows[0][0] if rows else None for rows in found]
    if None in phases or len(set(phases)) == 1:
        return []
    where = ", ".join(f"{letter(number)} in its {phase}" for number, phase in enumerate(phases))
    return [f"Peaks are at different moments, {where}: what is live then differs for that, too (view memory_phase)."]


def _by_sequence(
    databases: list[Database], how: Comparison, steps: list[Steps], spreads: list[Spreads], rows: list[Row]
) -> list[Values]:
    """Of ranges' kernels those of the backward of what ran in them, which other ranges launched, for each input."""
    if (how.view, how.measure, how.found_in) != ("range_summary", "kernel_ns", None):
        return []
    linked = replace(how, measure="sequence_kernel_ns")
    own = {row[RENAMED_TO]: row["path"] for row in rows if row.get(RENAMED_TO)}  # of the second input
    found = []
    for number, (database, widths) in enumerate(zip(databases, spreads, strict=True)):
        values = renamed.with_names(values_of(database, linked), renamed.of_compiled(database))
        values = renamed.with_names(values, own) if number else values
        count = steps[number] if steps else counted.WHOLE
        found.append({key: value * count.share(widths.get(key)) for key, value in values.items() if value})
    return found


def _labels(databases: Sequence[Database]) -> dict[str, str]:
    """Short names of kernels where no other kernel of any input has the same."""
    found = dict(
        row for database in reversed(databases)
        for row in database.rows("select kernel_name, min(short_name) from kernel_summary group by kernel_name")
    )  # fmt: skip
    count = Counter(found.values())
    return {name: short for name, short in found.items() if count[short] == 1}


def check(compared: Compared, limit: float) -> list[str]:
    """Raise RegressionError when steps or the first row of a table grew by more than the limit, a fraction; where that
    row is noise, when the rows that are none did.

    Returns what grew by more and is not counted, because steps differ among themselves as much.
    """
    first, names, notes = compared.rows[0], compared.names, []
    what = compared.measure.partition(" (")[0]
    base, *others = compared.steps or [None]
    for name, other in zip(names[1:], others, strict=False):
        if base is None or other is None:
            continue
        before, after = centres(base, other)
        if not before or after / before - 1 <= limit:
            continue
        said = f"a step of {name} takes {after / before - 1:.1%} longer than of {names[0]}"
        if not are_alike(base, other):
            raise RegressionError(f"{said}; {limit:.1%} is allowed")
        notes.append(f"{said}, within the noise of the steps: not counted")
    for name in names[1:]:
        change = first[f"{name} Δ frac"]
        if change is None and (first[name] or 0) > 0 and not first[names[0]]:
            raise RegressionError(f"{name} has {first[name]:,.0f} where {names[0]} has nothing")
        if change is None or change <= limit:
            continue
        if compared.has_cold:
            notes.append(f"{what} of {name} is {change:.1%} above {names[0]}, with cold steps in it: not counted")
            continue
        if first[f"{name} is"] not in ALIKE:
            raise RegressionError(f"{what} of {name} is {change:.1%} above {names[0]}; {limit:.1%} is allowed")
        grown, _ = total.beyond_noise(compared.rows, names, names.index(name))
        if grown > limit * first[names[0]]:
            raise RegressionError(
                f"{what} of {name} is {change:.1%} above {names[0]}, {grown / first[names[0]]:.1%} in rows that grew "
                f"by more than the noise of the steps; {limit:.1%} is allowed"
            )
        why = "as other steps evaluate" if first[f"{name} is"] == MIX else "within the noise of the steps"
        notes.append(f"{what} of {name} is {change:.1%} above {names[0]}, {why}: not counted")
    return notes


def _require_work(databases: Sequence[Database], how: Comparison, by: str) -> None:
    """Raise UsageError where an input has nothing recorded of what another has: it is not 0."""
    if how.view == "memory_peak":
        return
    for number, database in enumerate(databases):
        if not database.rows("select 1 from source where kind_has_work(kind) limit 1"):
            raise UsageError(f"--by {by}: {letter(number)} is a snapshot of memory alone; compare it --by memory")
    if how.view not in _OF_GPU:
        return
    worked = [bool(database.rows("select 1 from gpu_op limit 1")) for database in databases]
    if any(worked) and not all(worked):
        without = letter(worked.index(False))
        raise UsageError(
            f"--by {by}: no GPU work of {without} is recorded, which is not none; compare --by range or api"
        )


def _spreads(database: Database, how: Comparison, only: Iterable[tuple[Any, ...]] | None, divided: bool) -> Spreads:
    """The spread of the rows, and under () of the first one."""
    if how.view == "step_summary":
        whole = of_steps(database, how.measure) if only is None else None
        return {(): whole} if whole else {}
    found = of_rows(database, how.view, how.measure, only) if divided else {}
    if how.found_in is None:
        return found
    return {key: replace(width, step_cnt=0, kinds=()) if key else width for key, width in found.items()}  # other values


def _steps(databases: list[Database], how: Comparison, totals: bool) -> list[Steps]:
    """How many steps each trace has; empty where values are not for each step, or one has none."""
    if not how.is_per_step or totals:
        return []
    found = [Steps.of(database) for database in databases]
    if how.view == "finding":  # what they save is of warm steps
        found = [replace(steps, every=steps.warm or steps.every) for steps in found]
    return found if all(steps.every for steps in found) else []


def _outermost(values: Values) -> Values:
    """Of ranges those that are in no other of them."""
    paths = outermost(key[0] for key in values)
    return {key: value for key, value in values.items() if key[0] in paths}


def _headline(database: Database, how: Comparison, values: Values, is_whole: bool, widths: Spreads) -> float:
    """What the rows add up to. Ranges nest, so their total is what each owns by itself, with what no range owns; with
    `widths` that of what is in no range, or in those around steps alone.
    """
    if how.view == "step_summary":
        warm = of_steps(database, how.measure) if is_whole else None
        return warm.median if warm else statistics.median(values.values()) if values else 0.0
    if how.view != "range_summary" or not is_whole or how.measure.startswith("self_"):
        return sum(values.values())
    if () in widths and (total := widths[()].total) is not None:
        return total
    if how.measure in ("kernel_ns", "kernel_cnt"):
        return sum(values_of(database, replace(COMPARISONS["kernel"], measure=how.measure)).values())
    return sum(values_of(database, replace(how, where=f"depth = 0 and {how.where}")).values())


def _joined(
    how: Comparison, databases: list[Database], found: list[Values], spreads: list[Spreads]
) -> dict[tuple[Any, ...], str]:
    """Give kernels and ranges of the second of two traces the names that they have in the first; returns their own.

    Devices that have other numbers in the second are the first's in the order of their numbers.
    """
    if len(databases) != 2 or how.view not in ("kernel_summary", "range_summary", "gpu_timeline_summary"):
        return {}
    after = found[1]
    if how.view == "gpu_timeline_summary":
        devices = [sorted(key[0] for key in values) for values in found]
        if len(devices[0]) != len(devices[1]) or set(devices[0]) & set(devices[1]):
            return {}
        pairs = dict(zip(*devices, strict=True))
    elif how.view == "range_summary":
        wrapped = renamed.of_wrapped(*([key[0] for key in values] for values in found))
        pairs = {old: young for young, old in wrapped.items()}
    else:
        gone, new = ([key[0] for key in one if one[key] and not rest.get(key)] for one, rest in (found, found[::-1]))
        pairs = renamed.pairs(databases[0], databases[1], gone, new)
    for old, young in pairs.items():
        after[(old,)] = after.pop((young,))
        if (young,) in spreads[1]:
            spreads[1][(old,)] = spreads[1].pop((young,))
    return {(old,): young for old, young in pairs.items()}


def _all_change(how: Comparison, first: Values, other: Values) -> float:
    """How much changed in all, up and down: what rows add up to, of ranges (which nest) the largest; 0 for steps."""
    if how.view == "step_summary":
        return 0.0
    changes = [abs(other.get(key, 0.0) - first.get(key, 0.0)) for key in first.keys() | other.keys()]
    return max(changes, default=0.0) if how.view == "range_summary" else sum(changes)


def _largest_change(found: list[Values], key: tuple[Any, ...]) -> float:
    first = found[0].get(key, 0.0)
    return max((abs(values.get(key, 0.0) - first) for values in found[1:]), default=first)


def _text(part: Any) -> str | None:
    return None if part is None else str(part)
