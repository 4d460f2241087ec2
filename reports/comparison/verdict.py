"""The first lines of a comparison: which input is faster and by how much, or that no difference is found.

Step times of run directories are those of the timing pass, in which no profiler is attached. Those of traces come from
profiled steps, and are said to. The two are never set against each other.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ... import rundir
from ...analyze.store.database import Database
from ...vocabulary import PHASES
from ..answer.step_text import is_uneven
from ..answer.verdict_text import SNAPSHOT
from ..tables import units
from ..tables.sources import counting
from . import amounts, by_step, late_ranks, noise, one_job, recordings, spread, strangers, total, waterfall
from .compared import Asked, Compared, Input, Row, letter
from .run_steps import Work, of_run

_OF_ALL_DEVICES = (
    "range_summary", "operator_summary", "kernel_summary", "kernel_class", "lora_summary", "adapter_summary",
    "idle_summary",
)  # fmt: skip
_TELLING = 0.1  # of the whole change: a part that has less does not say where it comes from
_MOST = 0.5  # of a change: what one of its parts has to have to be named
_PHASE_WORDS = {"h2d": "copies to the GPU", "between": "between the steps"}
_NONE = "no difference"
# Phases that one program may have and another not; they count where they are all of the change.
_ADDED = ("data", "h2d")
_ALL = 0.2  # of a change: what may be of others where it is called all
_NEVER = spread.Spread(0.0, 0.0, 0.0, 0, 0.0, 0.0)  # of a phase that an input does not have
_TIMED = "timing pass, no profiler attached"
_LEAST_MEAN = 0.02  # means so far apart are worth a word where the usual steps do not differ
_SMALL = 0.05  # a factor nearer to 1 than this is said in per cent


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
    work = Work.of_all([rundir.read_summary(path) for path in inputs]) if are_timed else []
    steps = [*timed] if are_timed else [by_step.of_steps(database) for database in databases.values()]
    bases = [*databases.values()]
    strange = strangers.of(bases)
    said = strangers.said(rows, names, asked, strange)
    for number in range(1, len(names)):
        first, other = steps[0], steps[number]
        pair = databases[names[0]], databases[names[number]]
        said += of_recordings(pair, (first, other), number, work, number in strange)
        if number in strange:
            steps[number] = None
            continue
        if not first or not other:
            said.append(_of_window([*pair], number))
        elif not are_comparable(pair, are_timed):
            steps[number] = None
        elif not one_job.are_ranks([*pair]):
            fell = waterfall.of([*pair], waterfall.lengths(first, other), are_timed)
            said.append(waterfall.said(fell, (first, other), (letter(0), letter(number)), are_timed))
        if not (first and other) or asked.view not in ("step_summary",):
            elsewhere = [by_sequence[n] for n in (0, number)] if by_sequence else []
            said.append(total.of_total(rows, names, number, asked, labels, elsewhere))
    if not one_job.are_ranks(bases):  # who is late in a part of a job may not be in the whole
        said.append(late_ranks.said(bases))
    about = [
        ", ".join(
            filter(None, (recordings.recorder(database), by_step.said_of_steps(database), recordings.gpus(database)))
        )
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
        f"{total.words(asked.measure)} ({asked.measure} of {asked.view}){_each(databases, asked)}", ending,
        [*recordings.cautions(bases), *of_view, *_notes(bases, timed, any(by_sequence))],
        labels, steps,
    )  # fmt: skip


def of_recordings(
    pair: tuple[Database, Database], steps: tuple[spread.Spread | None, spread.Spread | None], number: int,
    work: Sequence[Work], is_strange: bool,
) -> list[str]:  # fmt: skip
    """Which of two is faster and how much more a step of one computes, or why neither is; empty without steps.

    work: as of_pair has it. is_strange: whether the two seem two programs.
    """
    if is_strange:
        return [_of_two_programs(*steps)]
    first, other = steps
    if first is None or other is None:
        return []
    if not are_comparable(pair, bool(work)):
        return [_of_other_profilers(pair, (first, other), number)]
    more = "" if work or one_job.are_ranks([*pair]) else amounts.said(pair, (first, other), number)
    return [line for line in (of_pair(pair, (first, other), number, work), more) if line]


def are_comparable(pair: tuple[Database, Database], are_timed: bool) -> bool:
    """Whether the steps of two may be set side by side: those of one profiler, or of timing passes."""
    return are_timed or recordings.recorder(pair[0]) == recordings.recorder(pair[1])


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


def _of_two_programs(first: spread.Spread | None, other: spread.Spread | None) -> str:
    said = "no verdict: of two programs neither is the faster one"
    if first is None or other is None:
        return said
    unit, cells = units.scaled("ns", [first.median, other.median])
    return f"{said}: steps of {cells[0]} and {cells[1]} {unit}"


def _of_other_profilers(
    pair: tuple[Database, Database], steps: tuple[spread.Spread, spread.Spread], number: int
) -> str:
    recorders = [recordings.recorder(database) for database in pair]
    unit, cells = units.scaled("ns", [step.median for step in steps])
    return (
        f"no verdict: A was recorded by {recorders[0]}, {letter(number)} by {recorders[1]}, whose overheads differ: "
        f"steps of {cells[0]} and {cells[1]} {unit}. Times of GPU work are comparable"
    )


def of_runs(steps: tuple[spread.Spread, spread.Spread], number: int, work: Sequence[Work]) -> str:
    """The same of two runs: by the tokens that they compute in a second, where a step of one computes more."""
    first, other = work[0], work[number]
    letters = letter(0), letter(number)
    if first.is_unlike(other):
        return _of_other_work(*steps, *letters, first, other)
    return of_steps(*steps, *letters, _TIMED) + _may_be_the_machine(*steps)


def _may_be_the_machine(first: spread.Spread, other: spread.Spread) -> str:
    """That two runs of one program may be as far apart, where their steps vary by more than lies between them."""
    before, after = spread.centres(first, other)
    if first.frac is None or other.frac is None or not before or spread.are_alike(first, other):
        return ""
    apart = abs(after / before - 1)
    if not spread.NEXT_TO_NOTHING <= apart <= first.frac + other.frac:
        return ""
    return "; that is no more than their steps vary, and so may runs of one program: repeat both to be sure"


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
    found = spread.difference(first, other)
    unit, cells = units.scaled("ns", [found.before, found.after])
    facts = f"{found.of} {counts} steps, {source}" if counts != "1" else f"one step of each, {source}"
    widths = f"spread {one} {_per_cent(first.frac)}, {two} {_per_cent(other.frac)}"
    if first.width is None or other.width is None:
        widths = f"no spread is known of fewer than {noise.LEAST_STEPS} steps"
        if found.is_noise and found.before and abs(found.after / found.before - 1) >= spread.NEXT_TO_NOTHING:
            return (
                f"{_NONE} found: steps of {cells[0]} and {cells[1]} {unit}, one among the others' ({facts}; {widths})"
            )
    elif found.is_noise and found.before != found.after:
        widths += _means(first, other, found) + _shows(found)
        return f"{_NONE} found: steps of {cells[0]} and {cells[1]} {unit} ({facts}; {widths})"
    step = f"step {cells[0]} -> {cells[1]} {unit} ({facts}; {widths})"
    if not found.before or not found.after:
        return step
    if abs(found.after / found.before - 1) < spread.NEXT_TO_NOTHING:
        return f"{_NONE}: {step}"
    return _factor(found.before / found.after, one, two, step)


def _of_other_work(first: spread.Spread, other: spread.Spread, one: str, two: str, before: Work, after: Work) -> str:
    unit, cells = units.scaled("ns", [first.median, other.median])
    tokens = before.tokens or 1.0, after.tokens or 1.0
    facts = (
        f"tokens/s {before.rate:,.0f} -> {after.rate:,.0f} (steps of {tokens[0]:,.0f} and {tokens[1]:,.0f} tokens, "
        f"{cells[0]} and {cells[1]} {unit}, {_TIMED})"
    )
    a, b = (spread.by_amount(one, mean) for one, mean in ((first, tokens[0]), (other, tokens[1])))
    if spread.are_alike(a, b):
        return f"{_NONE} found: {facts}{_shows(spread.difference(a, b))}"
    return _factor(after.rate / before.rate, one, two, facts)


def _shows(found: noise.Difference) -> str:
    """How small a difference would not show."""
    least = (found.least or 0.0) / found.before if found.before else 0.0
    if not least:
        return ""
    return "; they differ too much to tell" if least > 1 else f"; less than {_per_cent(least)} would not show"


def _means(first: spread.Spread, other: spread.Spread, found: noise.Difference) -> str:
    """The means of uneven steps, of which their medians say little, and of such as a few steps put apart."""
    if not first.mean or other.mean is None:
        return ""
    least = max(_LEAST_MEAN, (found.least or 0.0) / found.before if found.before else 0.0)
    are_apart = abs(other.mean / first.mean - 1) > least
    if not are_apart and not is_uneven(first.mean, first.median) and not is_uneven(other.mean, other.median):
        return ""
    unit, cells = units.scaled("ns", [first.mean, other.mean])
    return f"; means {cells[0]} and {cells[1]} {unit}" + (", by a few steps" if are_apart else "")


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
        if by_mean:
            return (two.mean or 0) - (one.mean or 0)
        found = spread.difference(one, two)
        return found.after - found.before

    change = grown(first, other)
    if not change:
        return ""
    found: dict[str, float] = {}
    for name in (*PHASES, "between", "gpu_busy"):
        before, after = (by_step.of_steps(one, f"{name}_ns") for one in pair)
        if before and after:
            found[name] = grown(before, after) / change  # of it, so above 0 where it went the same way
        elif name in _ADDED and (before or after) and abs(grown(before or _NEVER, after or _NEVER) / change - 1) < _ALL:
            found[name] = grown(before or _NEVER, after or _NEVER) / change
    most = max(found, key=lambda name: found[name], default=None)
    if most is None or not _MOST <= found[most] <= 1 / _MOST or found.get("gpu_busy", 0) >= _MOST:
        return ""  # where the CPU runs ahead, what a phase takes it is hidden, and may be many times the change
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


def _notes(
    databases: Sequence[Database], timed: Sequence[spread.Spread | None], by_sequence: bool
) -> list[str]:  # fmt: skip
    """How to read the rows. timed: of each input the steps of its timing pass."""
    profiled = [by_step.of_steps(database) if own else None for database, own in zip(databases, timed, strict=True)]
    costs = [
        f"{letter(number)} {under.median / own.median - 1:+.0%}"
        for number, (own, under) in enumerate(zip(timed, profiled, strict=True))
        if own and under
    ]
    cost = f" (a step: {', '.join(costs)})" if costs else ""
    notes = [f"Rows are from the profile: what the profiler costs{cost} is in them."]
    if {recordings.recorder(database) for database in databases} == {SNAPSHOT}:
        notes = ["Sizes are what was asked for; the allocator's blocks are a little larger."]
    if by_sequence:
        notes.append(
            "A range has the backward of what ran in it, too (sequence_kernel_ns): those side by side may add up to "
            "more than the one around them."
        )
    if any(timed):
        notes.append(f"Times without a profiler are in {rundir.SUMMARY}: --by summary.")
    return notes


def _per_cent(fraction: float | None) -> str:
    return "unknown" if fraction is None else f"{fraction * 100:.1f} %" if fraction < 0.1 else f"{fraction * 100:.0f} %"
