"""What the operators of a CPU cost: their work, and what calling them takes however little they compute.

Where no GPU works for it, a CPU's time is  calls x (what a call takes) + work,  and only the first does not grow with
the rows of a batch. What an operator takes above the fastest call of its name is work; all else in a step is of
calling: Python between operators, dispatch, views and the like, which compute nothing, autograd's bookkeeping.

    step     |--Python--[linear [addmm=====] ]--Python--[mul==]--|
    work                         -====                    -=          own time less that of a call ('-')
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ...errors import UsageError
from ..attribute.cover import Cover
from ..attribute.intervals import Bools, Ints, distinct
from ..store.database import Database

CALL_NS = 1_000  # a call of an operator takes no more of itself, for names of which every call in a trace has work
# These call others or look at memory in another way: what they take does not grow with the data.
_NO_WORK = re.compile(
    r"autograd::|torch::autograd|Optimizer\.|.*Backward\d*$|aten::(view|_unsafe_view|t|transpose|permute|numpy_T|"
    r"as_strided|expand|expand_as|reshape|_reshape_alias|detach|detach_|alias|unsqueeze|squeeze|slice|select|narrow|"
    r"unbind|chunk|split\w*|flatten|contiguous|empty\w*|new_\w+|zeros|zeros_like|ones|ones_like|full|full_like|to|"
    r"_to_copy|clone|linear|matmul|dropout|stack|pad|scalar_tensor|result_type|resolve_\w+|lift_fresh|item|"
    r"_local_scalar_dense|is_nonzero)$"
)
_OPERATORS = """
    select start_ns, greatest(end_ns - start_ns - covered_ns, 0) as own_ns, name_id
    from range
    where source_id = {id} and kind = 'operator'
    order by start_ns"""
_RECORDED = """
    select start_ns
    from range
    where source_id = {id} and kind in ('operator', 'annotation')
    order by start_ns"""
_NAMES = """
    select name_id, text
    from name
    where name_id in (select name_id from range where source_id = {id} and kind = 'operator')"""


@dataclass(frozen=True)
class Operators:
    """Operators in order of their start, the work of all before each, and begins of all that a profiler recorded.

    `names` are the texts of `name_id`.
    """

    start: Ints
    worked: Ints
    recorded: Ints
    name_id: Ints
    names: dict[int, str]

    @classmethod
    def of(cls, database: Database, source_id: int) -> "Operators":
        """Those of a source."""
        columns = database.columns(_OPERATORS.format(id=source_id))
        name = columns["name_id"].astype(np.int64)
        names = dict(database.rows(_NAMES.format(id=source_id)))
        idle = [number for number, text in names.items() if _NO_WORK.match(text)]
        work = work_ns(name, columns["own_ns"].astype(np.int64), np.isin(name, idle))
        recorded = database.columns(_RECORDED.format(id=source_id))["start_ns"]
        return cls(columns["start_ns"], np.append(0, np.cumsum(work)), recorded, name, names)

    def named(self, pattern: str) -> "Operators":
        """The same with the work of those alone whose name a regular expression matches.

        Raises UsageError when there are none.
        """
        expression = re.compile(pattern, re.IGNORECASE)
        chosen = [number for number, text in self.names.items() if expression.search(text)]
        if not chosen:
            raise UsageError(f"no operator's name matches {pattern!r}; `--report operator_summary` lists them")
        work = np.where(np.isin(self.name_id, chosen), np.diff(self.worked), 0)
        return replace(self, worked=np.append(0, np.cumsum(work)))

    def work_in(self, begin: Ints, end: Ints) -> Ints:
        """The work of operators that begin in each interval."""
        first, last = np.searchsorted(self.start, begin), np.searchsorted(self.start, end)
        found: Ints = self.worked[np.maximum(last, first)] - self.worked[first]
        return found

    def recorded_in(self, begin: Ints, end: Ints) -> Ints:
        """How many ranges begin in each interval."""
        first, last = np.searchsorted(self.recorded, begin), np.searchsorted(self.recorded, end)
        found: Ints = np.maximum(last - first, 0)
        return found

    def work_within(self, cover: Cover, begin: Ints, end: Ints) -> Ints:
        """The work of operators that begin in each interval and in a cover."""
        return _within(self.work_in, cover, begin, end)

    def recorded_within(self, cover: Cover, begin: Ints, end: Ints) -> Ints:
        """How many ranges begin in each interval and in a cover."""
        return _within(self.recorded_in, cover, begin, end)


def _within(inside: Callable[[Ints, Ints], Ints], cover: Cover, begin: Ints, end: Ints) -> Ints:
    """What is inside of intervals, counted for the parts of each that lie in a cover."""
    if not len(cover.start):
        return np.zeros(len(begin), dtype=np.int64)
    before = np.append(0, np.cumsum(inside(cover.start, cover.end)))

    def until(time: Ints) -> Ints:
        at = np.searchsorted(cover.start, time, side="right") - 1
        place = np.maximum(at, 0)
        part = inside(cover.start[place], np.minimum(time, cover.end[place]))
        return np.where(at >= 0, before[place] + part, 0)

    found: Ints = np.maximum(until(end) - until(begin), 0)
    return found


def work_ns(name: Ints, own: Ints, computes_nothing: Bools) -> Ints:
    """Of each operator's own time what is work: all above what the fastest of its name take, at most CALL_NS."""
    if not len(own):
        return own
    values, number = distinct(name)
    fastest = np.full(len(values), CALL_NS, dtype=np.int64)
    np.minimum.at(fastest, number, own)
    return np.where(computes_nothing, 0, own - np.minimum(fastest[number], own))


@dataclass(frozen=True)
class Parts:
    """What a stretch of a step takes: calling, and work; and how many ranges a profiler recorded in it."""

    called: float
    worked: float
    recorded: float

    def less(self, other: "Parts") -> "Parts":
        """Without a part of it."""
        return Parts(
            max(0.0, self.called - other.called), max(0.0, self.worked - other.worked), self.recorded - other.recorded
        )

    def without_profiler(self, each_ns: float) -> "Parts":
        """Without what recording took, so much for each range."""
        return Parts(max(0.0, self.called - each_ns * self.recorded), self.worked, 0)

    def times(self, called: float, worked: float) -> "Parts":
        """So much of each."""
        return Parts(self.called * called, self.worked * worked, self.recorded)


Measure = Callable[[Cover], Parts]


def of_interval(operators: Operators, begin: int, end: int) -> Measure:
    """What tells of a cover how much of it lies in an interval, as parts."""
    first, last = (np.array([time], dtype=np.int64) for time in (begin, end))

    def parts(cover: Cover) -> Parts:
        wall = int(cover.within(first, last)[0])
        work = min(wall, int(operators.work_within(cover, first, last)[0]))
        return Parts(wall - work, work, int(operators.recorded_within(cover, first, last)[0]))

    return parts


def fastest(length: npt.NDArray[np.int64]) -> int:
    """The place of the step that others on the machine disturbed least."""
    return int(np.argmin(length))
