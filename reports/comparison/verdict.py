"""The first lines of a comparison: which input is faster and by how much, or that the difference is within the spread.

Step times of run directories are those of the timing pass, in which no profiler is attached. Those of traces come from
profiled steps, and are said to. The two are never set against each other.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ... import rundir
from ...analyze.store.database import Database
from ...vocabulary import PHASES
from .. import units
from ..sources import counting
from ..step_text import is_uneven
from ..verdict_text import SNAPSHOT, said_shift
from . import one_job, spread, waterfall
from .compared import RENAMED_TO, Compared, Input, Row, letter
from .run_steps import Work, of_run

_WORDS = {
    "kernel_ns": "GPU time in kernels", "gpu_op_ns": "GPU time", "self_gpu_ns": "GPU time of operators",
    "wall_ns": "CPU time",
    "self_cpu_ns": "CPU time", "call_ns": "time in CUDA calls", "idle_ns": "idle GPU time", "busy_ns": "busy GPU time",
    "saving_ns": "time that could be saved", "live_bytes": "live memory",
    "length_ns": "time of a step",
}  # fmt: skip
_OF_ALL_DEVICES = (
    "range_summary", "operator_summary", "kernel_summary", "kernel_class", "lora_summary", "adapter_summary",
    "idle_summary",
)  # fmt: skip
_NAME = 60  # characters of a name within a sentence
_MOST = 0.5  # of a change: what one of its parts has to have to be named
_TELLING = 0.1  # of the whole change: a row that has less does not say where it comes from
_AS_MUCH = 0.9  # of the largest change: what says where it comes from
_PHASE_WORDS = {"h2d": "copies to the GPU", "between": "between the steps"}
_NONE = "no difference"
# Phases that one program may have and another not; they count where they are all of the change.
_ADDED = ("data", "h2d")
_ALL = 0.2  # of a change: what may be of others where it is called all
_NEVER = spread.Spread(0.0, 0.0, 0.0, 0, 0.0, 0.0)  # of a phase that an input does not have
_TIMED = "timing pass, no profiler attached"
_NEXT_TO_NOTHING = 0.0005  # a change that is +0.0% comes from nowhere
_SMALL = 0.05  # a factor nearer to 1 than this is said in per cent


@dataclass(frozen=True)
class Asked:
    """What is compared: the word of --by, the view, its column, and whether values are for each step."""

    by: str
    view: str
    measure: str
    is_per_step: bool


def of_traces(
    inputs: list[Path], databases: dict[str, Database], asked: Asked, keys: Sequence[str], rows: list[Row],
    labels: dict[str, str], by_sequence: Sequence[dict[tuple[Any, ...], float]] = (),
) -> Compared:  # fmt: skip
    """The comparison of traces with its verdict, what each input is, and what must be known to read it.

    labels: what rows are called here. by_sequence: how much of each range's kernels others launched, for each input.
    """
    names = list(databases)
    timed = [of_run(path) for path in inputs]
    are_timed = all(timed)
    work = [Work.of(rundir.read_summary(path)) for path in inputs] if are_timed else []
    steps = timed if are_timed else [spread.of_steps(database) for database in databases.values()]
    said = [_nothing_in_common(rows, names, asked)] if _are_strangers(rows, names) else []
    for number in range(1, len(names)):
        first, other = steps[0], steps[number]
        pair = databases[names[0]], databases[names[number]]
        if first and other:
            said.append(of_pair(pair, (first, other), number, work))
        else:
            said.append(_of_window([*pair], number))
        if not (first and other) or asked.view not in ("step_summary",):
            elsewhere = [by_sequence[n] for n in (0, number)] if by_sequence else []
            said.append(_of_total(rows, names, number, asked, labels, elsewhere))
    about = [
        ", ".join(filter(None, (_recorder(database), spread.said_of_steps(database), _gpus(database))))
        for database in databases.values()
    ]
    ending = asked.measure.rpartition("_")[2]
    of_view: list[str] = []
    if len(rows) == 1 and not any(rows[0][name] for name in names):
        said.insert(0, f"nothing to compare: none of these inputs has anything by {asked.by}")
    if asked.view == "idle_summary":
        of_view.append("Idle time is that between the first work of a device and its last.")
    guessed = "select 1 from memory_peak where basis = 'heuristic' and category <> 'unknown' limit 1"
    if asked.view == "memory_peak" and any(database.rows(guessed) for database in databases.values()):
        of_view.append("What memory is for is guessed by lifetimes and phases where no ledger says it.")
    return Compared(
        [Input(name, text) for name, text in zip(names, about, strict=True)], list(keys), rows,
        [line for line in said if line],
        f"{words(asked.measure)} ({asked.measure} of {asked.view}){_each(databases, asked)}", ending,
        [*cautions([*databases.values()]), *of_view, *_notes([*databases.values()], any(timed), any(by_sequence))],
        labels, steps,
    )  # fmt: skip


def of_pair(
    pair: tuple[Database, Database], steps: tuple[spread.Spread, spread.Spread], number: int, work: Sequence[Work]
) -> str:
    """Which of two is faster by the medians of their steps, and in which phase; of ranks of one job that neither is.

    work: of runs, whose steps are those of the timing pass, what these compute.
    """
    letters = letter(0), letter(number)
    if together := one_job.said(pair, steps, letters):
        return together
    if work:
        return of_runs(steps, number, work)
    line = of_steps(*steps, *letters, "profiled")
    return line if line.startswith(_NONE) else line + _phase(pair, *steps)


def of_runs(steps: tuple[spread.Spread, spread.Spread], number: int, work: Sequence[Work]) -> str:
    """The same of two runs: by the tokens that they compute in a second, where a step of one computes more."""
    first, other = work[0], work[number]
    letters = letter(0), letter(number)
    if first.is_unlike(other):
        return _of_other_work(*steps, *letters, first, other)
    return of_steps(*steps, *letters, _TIMED)


def _each(databases: dict[str, Database], asked: Asked) -> str:
    """What a number is of: a step, and where there are several devices all of them."""
    if asked.view not in _OF_ALL_DEVICES:
        return " per step" if asked.is_per_step else ""
    ((most,),) = max(
        database.rows(
            "select coalesce(max(cnt), 0) from (select count(*) as cnt from gpu_timeline_summary "
            f"where source_id in (select source_id from source where {counting(database)}) group by source_id)"
        )
        for database in databases.values()
    )
    each = " per step" if asked.is_per_step else ""
    return f"{each}, all {most} devices together" if most > 1 else each


def of_steps(first: spread.Spread, other: spread.Spread, one: str, two: str, source: str) -> str:
    """Which of two is faster by the medians of their steps, with the spread of both."""
    counts = f"{first.step_cnt} and {other.step_cnt}" if first.step_cnt != other.step_cnt else f"{first.step_cnt}"
    if spread.have_other_means(first, other):
        before, after = spread.centres(first, other)
        unit, cells = units.scaled("ns", [before, after, first.median, other.median])
        facts = f"mean of {counts} steps, {source}; medians {cells[2]} and {cells[3]} {unit}"
        return _factor(before / after, one, two, f"step {cells[0]} -> {cells[1]} {unit} ({facts})")
    unit, cells = units.scaled("ns", [first.median, other.median])
    facts = f"median of {counts} steps, {source}" if counts != "1" else f"one step of each, {source}"
    widths = f"spread {one} {_per_cent(first.frac)}, {two} {_per_cent(other.frac)}"
    if first.width is None or other.width is None:
        widths = f"no spread is known of fewer than {spread.LEAST_STEPS} steps"
    elif spread.is_within(other.median - first.median, first.width, other.width):
        means = _means(first, other)
        return f"{_NONE}: steps of {cells[0]} and {cells[1]} {unit} lie within the spread ({facts}; {widths}{means})"
    step = f"step {cells[0]} -> {cells[1]} {unit} ({facts}; {widths})"
    if not first.median or not other.median:
        return step
    if abs(other.median / first.median - 1) < _NEXT_TO_NOTHING:
        return f"{_NONE}: {step}"
    return _factor(first.median / other.median, one, two, step)


def _of_other_work(first: spread.Spread, other: spread.Spread, one: str, two: str, before: Work, after: Work) -> str:
    unit, cells = units.scaled("ns", [first.median, other.median])
    tokens = before.tokens or 1.0, after.tokens or 1.0
    facts = (
        f"tokens/s {before.rate:,.0f} -> {after.rate:,.0f} (steps of {tokens[0]:,.0f} and {tokens[1]:,.0f} tokens, "
        f"{cells[0]} and {cells[1]} {unit}, {_TIMED})"
    )
    a, b = first.scaled(1 / tokens[0]), other.scaled(1 / tokens[1])
    if spread.is_within(b.median - a.median, a.width, b.width):
        return f"{_NONE} beyond the spread: {facts}"
    return _factor(after.rate / before.rate, one, two, facts)


def _means(first: spread.Spread, other: spread.Spread) -> str:
    """The means of uneven steps, of which their medians say little."""
    if first.mean is None or other.mean is None:
        return ""
    if not is_uneven(first.mean, first.median) and not is_uneven(other.mean, other.median):
        return ""
    unit, cells = units.scaled("ns", [first.mean, other.mean])
    return f"; means {cells[0]} and {cells[1]} {unit}"


def _factor(factor: float, one: str, two: str, step: str) -> str:
    if abs(factor - 1) < _SMALL:
        slower = 1 / factor - 1
        return f"{two} is {abs(slower):.1%} {'slower' if slower > 0 else 'faster'} than {one}: {step}"
    said = f"{factor:.2f} x as fast as" if factor > 1 else f"{1 / factor:.2f} x as slow as"
    return f"{two} is {said} {one}: {step}"


def _phase(pair: tuple[Database, Database], first: spread.Spread, other: spread.Spread) -> str:
    """The phase on the CPU that has most of a change of the step, if one has; of what the GPU works it has the wait."""
    by_mean = spread.have_other_means(first, other)

    def grown(one: spread.Spread, two: spread.Spread) -> float:
        return (two.mean or 0) - (one.mean or 0) if by_mean else two.median - one.median

    change = grown(first, other)
    if not change:
        return ""
    found: dict[str, float] = {}
    for name in (*PHASES, "between", "gpu_busy"):
        before, after = (spread.of_steps(one, f"{name}_ns") for one in pair)
        if before and after:
            found[name] = grown(before, after) / change  # of it, so above 0 where it went the same way
        elif name in _ADDED and (before or after) and abs(grown(before or _NEVER, after or _NEVER) / change - 1) < _ALL:
            found[name] = grown(before or _NEVER, after or _NEVER) / change
    most = max(found, key=lambda name: found[name], default=None)
    if most is None or found[most] < _MOST or found.get("gpu_busy", 0) >= _MOST:
        return ""
    unit, (said,) = units.scaled("ns", [found[most] * change], signed=True)
    return f", most of it {_PHASE_WORDS.get(most, most)} ({said} {unit})"


def _of_window(pair: list[Database], number: int) -> str:
    """How long the GPUs' work takes from the first to the last, for recordings that are in no steps; "" without work.

    What most of the difference is may be anything: kernels alone are said not to have changed where copies did.
    """
    fell = waterfall.of(pair, None, False)
    if fell is None or not fell.first or not fell.second:
        return ""
    unit, cells = units.scaled("ns", [fell.first, fell.second])
    counts = [_kernel_cnt(database) for database in pair]
    held = " and ".join(f"{count:,}" for count in dict.fromkeys(counts)) + (
        " kernels" if max(counts) != 1 else " kernel"
    )
    text = (
        f"GPU window of {letter(number)}: {cells[0]} -> {cells[1]} {unit} ({fell.second / fell.first - 1:+.1%}; {held})"
    )
    most = fell.most()
    if most is None or abs(most[1]) < _TELLING * abs(fell.second - fell.first):
        return text
    most_unit, (change,) = units.scaled("ns", [most[1]], signed=True)
    return f"{text}, most of it while {fell.words(most[0])} ({change} {most_unit})"


def _kernel_cnt(database: Database) -> int:
    ((count,),) = database.rows(
        "select coalesce(sum(kernel_cnt), 0)::bigint from kernel_summary "
        f"where source_id in (select source_id from source where {counting(database)})"
    )
    return int(count)


def _of_total(
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
    widths = [first[f"{n} spread"] for n in (names[0], name)]
    if not before or not after:
        return f"{what}: {cells[0]} -> {cells[1]}{each}" if before or after else ""
    if before == after or cells[0] == cells[1]:
        return f"{what}: the same, {cells[0]}{each}"
    if spread.is_within(after - before, *widths):
        return f"{what}: no difference, {cells[0]} and {cells[1]}{each} lie within the spread of the steps"
    text = f"{what}: {cells[0]} -> {cells[1]}{each} ({after / before - 1:+.1%})"
    if abs(after / before - 1) < _NEXT_TO_NOTHING:
        return text

    def own(row: Row) -> float:
        key = (row.get("path"),)
        linked = elsewhere[1].get(key, 0.0) - elsewhere[0].get(key, 0.0) if elsewhere else 0.0
        return float(row[f"{name} Δ"] - linked)

    parts = [] if len(rows) == 2 and "path" in first else rows[1:]  # a range that is alone is the whole
    most = max(_telling(parts), key=lambda row: abs(own(row)), default=None)
    if most is not None and "path" in most:  # ranges nest: of those that changed as much the innermost says where
        alike = [row for row in _telling(parts) if abs(own(row)) >= _AS_MUCH * abs(own(most))]
        most = max(alike, key=lambda row: str(row["path"]).count("/"))
    if most is None or most[f"{name} is"] == _NONE or own(most) / (after - before) < _TELLING:
        return text
    _, (change,) = units.scaled(ending, [own(most)], signed=True)
    most_keys = [key for key in list(most)[: list(most).index(names[0])] if key != RENAMED_TO]
    keys = [labels.get(most[key], str(most[key])) for key in most_keys if most[key] is not None]
    most_unit, _ = units.scaled(ending, [own(most)])
    launched = "launched in " if any(elsewhere) else ""
    return f"{text}, most of all {launched}{_short(' '.join(keys))} ({change} {most_unit})".replace(" )", ")")


def _telling(rows: list[Row]) -> list[Row]:
    """The rows without outermost ranges that have others inside: that the step changed is said already."""
    around = {str(row["path"]).partition("/")[0] for row in rows if "/" in str(row.get("path"))}
    return [row for row in rows if row.get("path") not in around]


def _short(name: str) -> str:
    return name if len(name) <= _NAME else f"{name[: _NAME // 2]}…{name[-_NAME // 2 :]}"


def words(measure: str) -> str:
    """What a measure is called in a sentence."""
    return _WORDS.get(measure, measure.replace("_", " ").removesuffix(" ns").removesuffix(" cnt"))


def _are_strangers(rows: list[Row], names: list[str]) -> bool:
    """Whether not one row of the first is in any other, though both have rows."""
    has = {name: [bool(row[name]) for row in rows[1:]] for name in names}
    return all(map(any, has.values())) and not any(
        has[names[0]][n] and any(has[name][n] for name in names[1:]) for n in range(len(rows) - 1)
    )


def _nothing_in_common(rows: list[Row], names: list[str], asked: Asked) -> str:
    others = " or ".join(letter(n) for n in range(1, len(names)))
    return f"nothing in common: not one {asked.by} of A is in {others}"


def _recorder(database: Database) -> str:
    rows = database.rows(
        "select distinct kind, recorder from source join _recorder using (source_id) "
        f"where {counting(database)} order by all"
    )
    return " and ".join(recorder for _, recorder in rows) or "nothing read"


def _gpus(database: Database) -> str:
    """The GPUs that worked, "" where no recording names one."""
    rows = database.rows(
        "select device_name, count(*) from steady_state where device_name is not null "
        f"and source_id in (select source_id from source where {counting(database)}) group by all order by all"
    )
    return " and ".join(f"{count} x {name}" if count > 1 else str(name) for name, count in rows)


def _lacks(database: Database, of: str) -> list[str]:
    """What is missing or wrong in a recording, so that its numbers are not those of its steps."""
    is_counted = f"source_id in (select source_id from source where {counting(database)})"
    found = [
        f"The last {missing:,} of {launches:,} launches of {of} have no GPU work, as the recording ended early: "
        f"what the GPU does in a step of {of} is too little."
        for missing, launches in database.rows(f"select missing_cnt, launch_cnt from _work_missing where {is_counted}")
    ]
    found += [
        f"In {of} the CPU waits {units.said_ns(missing)} for GPU work that is not recorded: that is neither idle time "
        "nor a step's own."
        for (missing,) in database.rows(f"select missing_ns from _answer_replay where {is_counted} and missing_ns > 0")
    ]
    shifts = database.rows(f"select shift_ns from _clock_shift where {is_counted}")
    return [*found, *(f"In {of} {said_shift(shift)}." for (shift,) in shifts)]


def cautions(databases: Sequence[Database]) -> list[str]:
    """What makes recordings other than alike, each in a sentence: what is missing, other profilers, GPUs, one job."""
    found = [line for number, database in enumerate(databases) for line in _lacks(database, letter(number))]
    if one_job.are_ranks([*databases]):
        found.append(one_job.WAITS)
    if len({_recorder(database) for database in databases}) > 1:
        found.append("The inputs were recorded by different profilers, which cost differently; compare like with like.")
    if len(gpus := {gpu for database in databases if (gpu := _gpus(database))}) > 1:
        found.append(f"The GPUs differ: {' and '.join(sorted(gpus))}.")
    return found


def _notes(databases: Sequence[Database], has_timing: bool, by_sequence: bool) -> list[str]:
    notes = ["Rows are from the profile: what the profiler costs is in them."]
    if {_recorder(database) for database in databases} == {SNAPSHOT}:
        notes = ["Sizes are what was asked for; the allocator's blocks are a little larger."]
    if by_sequence:
        notes.append(
            "A range has the backward of what ran in it, too (sequence_kernel_ns): those side by side may add up to "
            "more than the one around them."
        )
    if has_timing:
        notes.append(f"Times without a profiler are in {rundir.SUMMARY}: --by summary.")
    return notes


def _per_cent(fraction: float | None) -> str:
    return "unknown" if fraction is None else f"{fraction * 100:.1f} %" if fraction < 0.1 else f"{fraction * 100:.0f} %"
