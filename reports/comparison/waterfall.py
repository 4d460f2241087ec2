"""What a difference is made of: parts of two values that add up to each, and so to what lies between them.

The values are the steps of the verdict: of the timing pass, else the mean of the warm ones. The parts are what the GPU
does in a step and why it is idle; of recordings without GPU work the phases of a step. Where GPU work lies outside of
the steps, the values are what the GPU's window is for each step.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ...analyze.store.database import Database
from ...vocabulary import PHASES
from ..answer import answer
from ..page.receipt import PARTS
from ..tables.sources import counting
from ..tables.units import said_ns
from .spread import NEXT_TO_NOTHING, Spread, are_alike, centres

_REST, _BETWEEN, _WAITS = "outside of phases", "between steps", "waits"
_AGAINST_WINDOW = "step less the GPU's window"
_APART = 0.05  # of a step: if the GPU's window is longer by more, its parts are not those of the step
_MUCH = 0.25  # of the difference: what goes the other way by more is said
_IS_IDLE = PARTS["idle"][0]  # why is not known
_IDLE = [*(PARTS[cause][0] for cause in answer.IDLE), _IS_IDLE]
_UNKNOWN = PARTS["unrecorded"][0]
Values = dict[str, float]


@dataclass(frozen=True)
class Waterfall:
    """Two values and their parts: the name of each, and what it is in both."""

    first: float
    second: float
    parts: list[tuple[str, float, float]]
    is_of_gpu: bool
    is_of_step: bool  # else of the GPU's window

    def words(self, part: str) -> str:
        """A part in a sentence."""
        if self.is_of_gpu and part == _UNKNOWN:
            return "what is not recorded of the GPU"
        return f"the GPU {part}" if self.is_of_gpu and part != _AGAINST_WINDOW else part

    def most(self) -> tuple[str, float] | None:
        """The part that differs most in the direction of the whole, and by how much."""
        return self._most(1)

    def against(self) -> tuple[str, float] | None:
        """The one that differs most in the other direction, if that is much of the whole."""
        found = self._most(-1)
        return found if found and abs(found[1]) >= _MUCH * abs(self.second - self.first) else None

    def _most(self, way: int) -> tuple[str, float] | None:
        whole = way * (self.second - self.first)
        found = max(self.parts, key=lambda part: (part[2] - part[1]) * whole, default=None)
        return (found[0], found[2] - found[1]) if found and (found[2] - found[1]) * whole > 0 else None


def of(databases: list[Database], steps: list[float] | None, is_timed: bool) -> Waterfall | None:
    """From the first of two to the second: None where nothing adds up to a step.

    steps: how long a step of each is; without, it is about the GPU's time for each recording. is_timed: that they are
    of a pass without a profiler, whose idle time is all that is not work.
    """
    if not any(database.rows("select 1 from gpu_op limit 1") for database in databases):
        return None if steps is None else _by_phases(databases, steps)
    found = [_of_gpu(database, steps is not None) for database in databases]
    if not all(found):
        return None
    if any(one.get(_IS_IDLE) for one in found):
        found = [_with_one_idle(one) for one in found]
    windows = [sum(one.values()) for one in found]
    if steps is None:
        return _made(found, windows, is_of_gpu=True, is_of_step=False)
    if is_timed:
        found = [{name: value for name, value in one.items() if name not in _IDLE} for one in found]
    elif any(window - step > _APART * step for step, window in zip(steps, windows, strict=True)):
        return _made(found, windows, is_of_gpu=True, is_of_step=False)
    rest = _WAITS if is_timed else _AGAINST_WINDOW
    for one, step in zip(found, steps, strict=True):
        one[rest] = step - sum(one.values())
    return _made(found, steps, is_of_gpu=True, is_of_step=True)


def lengths(one: Spread, two: Spread) -> list[float]:
    """How long a step of each is: the mean, whose parts add up to it, where it is known."""
    return [*centres(one, two)] if one.mean is None or two.mean is None else [one.mean, two.mean]


def said(fell: Waterfall | None, steps: tuple[Spread, Spread], letters: tuple[str, str], is_timed: bool) -> str:
    """Which part has most of what lies between two inputs, where they differ as the verdict has it; else ""."""
    most = fell.most() if fell is not None else None
    if fell is None or most is None or are_alike(*steps):
        return ""
    before, after = centres(*steps)
    change = fell.second - fell.first
    if change * (after - before) <= 0 or abs(change) < NEXT_TO_NOTHING * fell.first:
        return ""
    against = fell.against()
    return (
        f"most of the difference from {letters[0]} to {letters[1]}: {fell.words(most[0])}, "
        f"{_signed(most[1])} {of_what(fell, is_timed)}"
        + (f"; the other way {fell.words(against[0])}, {_signed(against[1])}" if against else "")
    )


def _signed(ns: float) -> str:
    return f"{'+' if ns > 0 else '-'}{said_ns(abs(ns))}"


def of_what(fell: Waterfall, is_timed: bool) -> str:
    """What the differences of a waterfall are in."""
    if not fell.is_of_step:
        return "of the GPU's window for each step"
    return "in a step" if is_timed else "in the mean step"


def _by_phases(databases: list[Database], steps: list[float]) -> Waterfall | None:
    """The phases of the mean step, on the clock of the verdict."""
    found = [_of_phases(database) for database in databases]
    if not all(found):
        return None
    scaled = [
        {name: part * step / sum(one.values()) for name, part in one.items()}
        for one, step in zip(found, steps, strict=True)
    ]
    return _made(scaled, steps, is_of_gpu=False, is_of_step=True)


def _made(found: list[Values], values: list[float], *, is_of_gpu: bool, is_of_step: bool) -> Waterfall:
    a, b = found
    parts = [(name, a.get(name, 0.0), b.get(name, 0.0)) for name in dict.fromkeys([*a, *b])]
    return Waterfall(values[0], values[1], [part for part in parts if part[1] or part[2]], is_of_gpu, is_of_step)


def _of_gpu(database: Database, by_step: bool) -> Values:
    """What a device does in a warm step, or in the whole recording: the mean of its devices."""
    counted = f"select source_id from source where {counting(database)}"
    ((count, leaves_out),) = database.rows(
        f"select count(*), coalesce(bool_or(is_steady), false) from steady_state where source_id in ({counted})"
    )
    if leaves_out and not by_step:
        return _of_recording(database, counted)
    if by_step:
        ((count,),) = database.rows(  # each device has the steps of its source, which its processes share
            f"select sum(step_cnt / process_cnt) from steady_state join _stepping using (source_id) "
            f"where source_id in ({counted})"
        )
    return _each(answer.times(database, [source_id for (source_id,) in database.rows(counted)]), count)


def _of_recording(database: Database, counted: str) -> Values:
    """The same where the answer leaves cold steps out, whose parts are not those of the whole."""
    ((device_cnt, compute, communication, copies),) = database.rows(
        "select count(*), sum(compute_ns), sum(exposed_communication_ns), sum(exposed_memory_ns) "
        f"from gpu_timeline_summary where source_id in ({counted})"
    )
    work = {"compute": compute, "communication": communication, "copies": copies}
    idle = database.rows(f"select cause, sum(idle_ns) from idle_summary where source_id in ({counted}) group by cause")
    return _each(work | dict(idle), device_cnt)


def _with_one_idle(found: Values) -> Values:
    """The same with one part for all idle time: of the other input nobody knows why it is idle."""
    work = {name: value for name, value in found.items() if name not in _IDLE}
    return work | {_IS_IDLE: sum(found.get(name, 0.0) for name in _IDLE)}


def _each(times: Mapping[str, float | None], count: float | None) -> Values:
    return {PARTS[name][0]: float(times.get(name) or 0) / count for name in PARTS} if count else {}


def _of_phases(database: Database) -> Values:
    """What the phases of a warm step take, on average."""
    parts = {phase: f"{phase}_ns" for phase in PHASES} | {_BETWEEN: "between_ns"}
    sums = ", ".join(f"coalesce(sum({column}), 0)" for column in parts.values())
    ((step_cnt, whole, *times),) = database.rows(
        f"select count(distinct (source_id, step)), sum(length_ns), {sums} "
        "from step_summary left join _steady_time as steady using (source_id) "
        "where step_summary.start_ns >= coalesce(steady.first_step_ns, step_summary.start_ns) "
        f"and source_id in (select source_id from source where {counting(database)})"
    )
    if not step_cnt or not whole:
        return {}
    found = {part: float(time) / step_cnt for part, time in zip(parts, times, strict=True)}
    return found | {_REST: float(whole) / step_cnt - sum(found.values())}
