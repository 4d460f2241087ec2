"""Round by round the change that promises most is measured, and kept where it gained more than steps differ by.

    start ─► predict all ─► measure the best ─► better than what it replaces, before and after? ─► kept, from there on
                 ▲                                         │ no                                        │
                 └─────────────────────────────────────────┴───────────────────────────────────────────┘

Nothing here runs or reads anything: a laboratory is given that measures and predicts. What fails is a row.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ...errors import RunError, UsageError
from ..settings.spec import RunSpec
from .candidates import TIME, Candidate
from .measured import Failure, Measured, difference

_REPEAT = "the machine is busy; repeat on a quiet one with --force"
KEPT, DROPPED, FAILED, REFUSED, UNTRIED = "kept", "dropped", "failed", "refused", "not tried"
UNDECIDED = "undecided"  # runs of the same settings differ by more than what is to be seen
_BEYOND_FRAC = 0.05  # so far below its bound a step is worth a word
_SMALL_FRAC = 0.05  # what gains less has to do so once more
_LEAST_FRAC = 0.01  # what is predicted to gain less is not worth a round; memory hardly varies


@dataclass(frozen=True)
class Prediction:
    """What a change is predicted to make of a run; None where nobody knows."""

    step_frac: float | None = None  # of the step before
    bound_frac: float | None = None  # the step cannot be shorter than this part of the step before
    more_bytes: float | None = None  # the peak grows by so much
    note: str = ""  # why there is none
    settings: dict[str, Any] = field(default_factory=dict)  # what the recording says of the change's settings
    name: str = ""  # of the change with these


@dataclass
class Row:
    """A change in one round: predicted, measured, kept or not."""

    round: int | None  # None for one that was not measured
    change: str
    settings: dict[str, Any]
    alters: str
    prediction: Prediction
    predicted_step_ns: float | None
    predicted_peak_bytes: float | None
    measured: Measured | None = None
    base: Measured | None = None  # what it replaces, measured when it was
    verdict: str = UNTRIED
    why: str = ""
    folder: str = ""

    def set_base(self, base: Measured) -> None:
        """Predict from this: what is replaced, the least disturbed of its measurements."""
        self.base, frac = base, self.prediction.step_frac
        self.predicted_step_ns = None if frac is None else frac * base.median_ns

    @property
    def bound_step_ns(self) -> float | None:
        """What the step cannot be shorter than."""
        frac = self.prediction.bound_frac
        return None if frac is None or self.base is None else frac * self.base.median_ns

    @property
    def error_frac(self) -> float | None:
        """By how much the median step was predicted longer or shorter than it is."""
        if self.measured is None or self.predicted_step_ns is None:
            return None
        return self.predicted_step_ns / self.measured.median_ns - 1

    @property
    def peak_error_frac(self) -> float | None:
        """The same of the peak of memory."""
        if self.measured is None or self.predicted_peak_bytes is None or not self.measured.peak_bytes:
            return None
        return self.predicted_peak_bytes / self.measured.peak_bytes - 1


class Laboratory(Protocol):
    """What measures and predicts."""

    def measure(self, spec: RunSpec, name: str) -> Measured | Failure:
        """Run the work with these settings."""

    def possible(self, spec: RunSpec) -> list[Candidate]:
        """The changes that apply to these settings."""

    def predict(self, spec: RunSpec, candidates: Sequence[Candidate]) -> list[Prediction]:
        """What each would make of a run with these settings."""

    def is_spent(self) -> bool:
        """Whether another measurement would go beyond the budget."""


@dataclass(frozen=True)
class Asked:
    """What is looked for, and how far."""

    goal: str
    rounds: int
    allow_numerics: bool = False


@dataclass
class Course:
    """How it went: the start, a row for each change, where it ended."""

    start_spec: RunSpec
    start: Measured
    spec: RunSpec
    end: Measured
    goal: str = TIME
    rows: list[Row] = field(default_factory=list)
    stopped: str = ""  # why no further round was made
    same_ns: list[float] = field(default_factory=list)  # median steps of all runs with the settings that won so far

    @property
    def step_frac(self) -> float:
        """What is left of the step: the product of what was kept, each beside what it replaced."""
        found = 1.0
        for row in self.rows:
            if row.verdict == KEPT and row.measured and row.base:
                found *= row.measured.median_ns / row.base.median_ns
        return found

    @property
    def measured_cnt(self) -> int:
        """Rounds that were made."""
        return sum(row.round is not None for row in self.rows)


def improve(start: RunSpec, asked: Asked, lab: Laboratory) -> Course:
    """Make rounds until none is left that promises anything, or until rounds or budget are spent.

    Raises RunError when the start itself cannot be measured.
    """
    measured = lab.measure(start, "00-start")
    if isinstance(measured, Failure):
        raise RunError(f"the run to improve does not end well: {measured.message}")
    course = Course(start, measured, start, measured, asked.goal, same_ns=[measured.median_ns])
    while True:
        rows = outlook(course.spec, course.end, asked, lab, {row.change for row in course.rows})
        course.rows += [row for row in rows if row.verdict == REFUSED]
        best = next((row for row in rows if row.verdict == UNTRIED and not row.why), None)
        course.stopped = _stopped(course, asked, lab, best)
        if best is None or course.stopped:
            course.rows += [_left(row, course.stopped) for row in rows if row.verdict == UNTRIED]
            return course
        _round(course, best, asked, lab)


def outlook(spec: RunSpec, now: Measured, asked: Asked, lab: Laboratory, done: set[str]) -> list[Row]:
    """The changes that are left, the most promising first; `why` says of a row why it is not worth a round."""
    candidates = [c for c in lab.possible(spec) if c.name not in done]
    rows = []
    for candidate, prediction in zip(candidates, lab.predict(spec, candidates), strict=True):
        more, name = prediction.more_bytes, prediction.name or candidate.name
        if name in done:
            continue
        peak = None if more is None or now.peak_bytes is None else now.peak_bytes + more
        settings = candidate.settings | prediction.settings
        row = Row(None, name, settings, candidate.alters, prediction, None, peak)
        row.set_base(now)
        try:
            changed(spec, row)
        except UsageError as error:
            row.verdict, row.why = REFUSED, str(error)
        else:
            row.why = _why_not(row, now, asked)
        rows.append(row)
    rows.sort(key=lambda row: _promise(row, asked.goal))
    return rows


def changed(spec: RunSpec, row: Row) -> RunSpec:
    """The settings with a change. Raises UsageError where they contradict each other."""
    return dataclasses.replace(spec, **row.settings)


def _promise(row: Row, goal: str) -> tuple[int, float]:
    """Predicted gains before bounds of gains before what nobody knows; each the largest first."""
    if goal != TIME:
        more = row.prediction.more_bytes
        return (2, 0.0) if more is None else (0, more)
    if row.prediction.step_frac is not None:
        return 0, row.prediction.step_frac
    return (2, 0.0) if row.prediction.bound_frac is None else (1, row.prediction.bound_frac)


def _why_not(row: Row, now: Measured, asked: Asked) -> str:
    """Why a change is not worth a round; empty if it is."""
    if row.alters and not asked.allow_numerics:
        return f"alters {row.alters}: needs --allow-numerics"
    if asked.goal != TIME:
        more = row.prediction.more_bytes
        return "no gain is predicted" if more is not None and -more <= _noise(now, now, asked) else ""
    best = row.prediction.step_frac if row.prediction.step_frac is not None else row.prediction.bound_frac
    return "no gain is predicted" if best is not None and 1 - best <= _LEAST_FRAC else ""


def _stopped(course: Course, asked: Asked, lab: Laboratory, best: Row | None) -> str:
    if best is None:
        undecided = ", ".join(row.change for row in course.rows if row.verdict == UNDECIDED)
        if undecided:
            return f"nothing else is left that promises a gain, and not decided: {undecided}"
        return "nothing is left that promises a gain"
    if course.measured_cnt >= asked.rounds:
        return f"--rounds {asked.rounds} are over"
    return "--budget is spent" if lab.is_spent() else ""


def _left(row: Row, stopped: str) -> Row:
    row.why = row.why or stopped
    return row


def _round(course: Course, row: Row, asked: Asked, lab: Laboratory) -> None:
    """Measure a change, and keep it if it is better."""
    spec = changed(course.spec, row)
    row.round = course.measured_cnt + 1
    row.folder = f"{row.round:02d}-{row.change.replace(' ', '-').replace(',', '')}"
    course.rows.append(row)
    found = lab.measure(spec, row.folder)
    if isinstance(found, Failure):
        row.verdict, row.why = FAILED, found.message
        return
    before, own_ns = course.end, [found.median_ns]
    row.verdict, row.why = judged(before, found, asked, row.alters)
    if asked.goal == TIME and not (difference(before, found) and not row.alters):
        before, found = _again(course, row, spec, found, lab, asked, own_ns)
        row.verdict, row.why = judged(before, found, asked, row.alters)
        _doubt(row, before, found, course.same_ns, own_ns)
    row.measured = found
    row.set_base(before)
    if asked.goal == TIME and row.bound_step_ns and found.median_ns < row.bound_step_ns * (1 - _BEYOND_FRAC):
        row.why += "; less than it can be by the bound: that is wrong, or others slowed what it replaces"
    if row.verdict == KEPT:
        course.spec, course.end, course.same_ns = spec, found, own_ns


def _doubt(row: Row, before: Measured, found: Measured, same_ns: Sequence[float], own_ns: Sequence[float]) -> None:
    """Call a change undecided that was dropped although runs of the same settings differ by more than it may gain.

    Others on the machine make runs longer and none shorter: what is not faster in the faster of two runs is decided.
    """
    apart = max(max(runs) / min(runs) - 1 for runs in (same_ns, own_ns))
    gain = abs(1 - found.median_ns / _tokens(found) * _tokens(before) / before.median_ns)
    is_slower = len(own_ns) > 1 and min(own_ns) / _tokens(found) >= min(same_ns) / _tokens(before)
    if row.verdict == DROPPED and not is_slower and apart > max(gain, _SMALL_FRAC):
        row.verdict = UNDECIDED
        row.why += f"; runs of the same settings differ by {apart:.0%}: {_REPEAT}"


def _again(
    course: Course, row: Row, spec: RunSpec, found: Measured, lab: Laboratory, asked: Asked, own_ns: list[float]
) -> tuple[Measured, Measured]:
    """What is replaced and what replaces it, measured again where that may say something else: the fastest of the one,
    the slowest of the other.

    Runs differ by more than their steps do, and a busy machine slows one and not the next. So what seems to gain has to
    do so against each of two runs of what it replaces, by two of its own, and what gains little by three of each: of
    six runs in any order the three that count are the fastest in one of twenty. What gained nothing although that was
    predicted gets a second chance. All medians go to `own_ns` and the course.
    """
    before, is_promising = course.end, (row.prediction.step_frac or 1) < 1 - _LEAST_FRAC
    if row.verdict != KEPT and not is_promising:
        return before, found
    old, new = before, found
    for suffix in ("", "-2"):
        is_kept = row.verdict == KEPT
        more = []
        for own, name in ((course.spec, "against"), (spec, "again")):
            measured = lab.measure(own, f"{row.folder}-{name}{suffix}")
            if isinstance(measured, Failure):
                return old, new
            more.append(measured)
            (course.same_ns if name == "against" else own_ns).append(measured.median_ns)
        old = _faster(old, more[0])
        new = (_slower if is_kept else _faster)(new, more[1])
        row.verdict, row.why = judged(old, new, asked, row.alters)
        gain_frac = 1 - new.median_ns / _tokens(new) / (old.median_ns / _tokens(old))
        if row.verdict != KEPT or gain_frac > _SMALL_FRAC:
            break
    return old, new


def _faster(first: Measured, other: Measured) -> Measured:
    return min(first, other, key=lambda measured: measured.median_ns)


def _slower(first: Measured, other: Measured) -> Measured:
    return max(first, other, key=lambda measured: measured.median_ns)


def judged(before: Measured, after: Measured, asked: Asked, alters: str) -> tuple[str, str]:
    """Whether a change is kept, and why."""
    if (other := difference(before, after)) and not alters:
        return DROPPED, other
    old, new = _value(before, asked.goal), _value(after, asked.goal)
    if old is None or new is None:
        return DROPPED, "its memory was not measured"
    if asked.goal == TIME:
        new *= _tokens(before) / _tokens(after)  # a step of other data is timed for as many tokens
    gain, noise = old - new, _noise(before, after, asked)
    what, less, more = ("step", "shorter", "longer") if asked.goal == TIME else ("peak", "lower", "higher")
    said = f"the {what} is {abs(gain) / old:.1%} {less if gain > 0 else more}"
    if gain > noise:
        return KEPT, said + (_later(before, after) if asked.goal == TIME else "")
    return DROPPED, f"{said}: within the spread" if abs(gain) <= noise else said


def _later(before: Measured, after: Measured) -> str:
    """What a shorter step costs before the first one, as compiling does, where that is longer than all of the run."""
    late_s = after.wall_s - before.wall_s - (after.median_ns - before.median_ns) * after.step_cnt / 1e9
    if not before.wall_s or late_s <= before.wall_s:
        return ""
    steps = late_s * 1e9 / (before.median_ns - after.median_ns)
    return f"; it begins {late_s:.0f} s later, which {steps:,.0f} steps make up for"


def _value(measured: Measured, goal: str) -> float | None:
    """What a goal wants less of."""
    return measured.median_ns if goal == TIME else measured.peak_bytes


def _tokens(measured: Measured) -> int:
    return sum(measured.tokens.values()) or 1


def _noise(before: Measured, after: Measured, asked: Asked) -> float:
    """What a difference has to exceed: half of both quartile distances of single steps; of memory a hundredth."""
    if asked.goal == TIME:
        return (before.width_ns + after.width_ns) / 2
    return _LEAST_FRAC * (before.peak_bytes or 0)
