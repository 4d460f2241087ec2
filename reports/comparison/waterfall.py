"""What a difference is made of: parts of two values that add up to each, and so to what lies between them.

The values are the steps of the verdict. The parts are what the GPU does in a step and why it is idle; of recordings
without GPU work the phases of a step.
"""

from dataclasses import dataclass

from ...analyze.store.database import Database
from ...vocabulary import PHASES
from ..page.receipt import PARTS
from ..sources import counting

_REST, _WAITS = "outside of phases", "waits"
_AGAINST_WINDOW = "step less the GPU's window"
Values = dict[str, float]


@dataclass(frozen=True)
class Waterfall:
    """Two values and their parts: the name of each, and what it is in both."""

    first: float
    second: float
    parts: list[tuple[str, float, float]]
    is_of_gpu: bool

    def words(self, part: str) -> str:
        """A part in a sentence."""
        return f"the GPU {part}" if self.is_of_gpu and part != _AGAINST_WINDOW else part

    def most(self) -> tuple[str, float] | None:
        """The part that differs most in the direction of the whole, and by how much."""
        whole = self.second - self.first
        found = max(self.parts, key=lambda part: (part[2] - part[1]) * whole, default=None)
        return (found[0], found[2] - found[1]) if found and (found[2] - found[1]) * whole > 0 else None


def of(databases: list[Database], steps: list[float] | None, is_timed: bool) -> Waterfall | None:
    """From the first of two to the second: None where nothing adds up to a step.

    steps: what the verdict says of each; without, the mean of the GPU's time for each recording. is_timed: that it is
    of a pass without a profiler, whose idle time is all that is not work.
    """
    has_gpu = any(database.rows("select 1 from gpu_op limit 1") for database in databases)
    if has_gpu:
        found = [_of_gpu(database, steps is not None) for database in databases]
    elif steps is not None:
        found = [_of_phases(database) for database in databases]
    if (not has_gpu and steps is None) or not all(found):
        return None
    if is_timed and has_gpu:
        found = [{name: value for name, value in one.items() if name not in _IDLE} for one in found]
    values = steps or [sum(one.values()) for one in found]
    rest = _WAITS if is_timed and has_gpu else _AGAINST_WINDOW if has_gpu else None
    if rest is None:  # phases: of the mean step, on the clock of the verdict
        found = [
            {name: part * value / sum(one.values()) for name, part in one.items()}
            for one, value in zip(found, values, strict=True)
        ]
    else:
        for one, value in zip(found, values, strict=True):
            one[rest] = value - sum(one.values())
    a, b = found
    parts = [(name, a.get(name, 0.0), b.get(name, 0.0)) for name in dict.fromkeys([*a, *b])]
    return Waterfall(values[0], values[1], [part for part in parts if part[1] or part[2]], has_gpu)


_IDLE = [PARTS[cause][0] for cause in ("host", "dependency", "kernel_wait")]


def _of_gpu(database: Database, by_step: bool) -> Values:
    """What a device does in a step, or in the whole recording: the mean of its devices."""
    is_counted = f"source_id in (select source_id from source where {counting(database)})"
    ((compute, communication, copies, device_cnt, source_cnt),) = database.rows(
        "select coalesce(sum(compute_ns), 0), coalesce(sum(exposed_communication_ns), 0), "
        "coalesce(sum(exposed_memory_ns), 0), count(*), count(distinct source_id) from gpu_timeline_summary "
        f"where {is_counted}"
    )
    if not device_cnt:
        return {}
    ((step_cnt,),) = database.rows(f"select count(distinct (source_id, step)) from step_summary where {is_counted}")
    times = {"compute": compute, "communication": communication, "copies": copies} | dict(
        database.rows(f"select cause, sum(idle_ns) from idle_summary where {is_counted} group by cause")
    )
    # each device has the steps of its source
    divisor = device_cnt * step_cnt / source_cnt if by_step and step_cnt else device_cnt
    return {PARTS[name][0]: float(times.get(name, 0)) / divisor for name in PARTS}


def _of_phases(database: Database) -> Values:
    """What the phases of a step take, on average."""
    sums = ", ".join(f"coalesce(sum({phase}_ns), 0)" for phase in PHASES)
    ((step_cnt, wall, *phases),) = database.rows(
        f"select count(distinct (source_id, step)), sum(wall_ns), {sums} from step_summary "
        f"where source_id in (select source_id from source where {counting(database)})"
    )
    if not step_cnt or not wall:
        return {}
    found = {phase: float(time) / step_cnt for phase, time in zip(PHASES, phases, strict=True)}
    return found | {_REST: float(wall) / step_cnt - sum(found.values())}
