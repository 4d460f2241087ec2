"""What a run of `collect --parallel` measured of its ranks, for a person: lines of at most 80 characters."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ... import rundir
from ...errors import InputError
from ...vocabulary import PHASES
from ..terminal.screen import WIDTH

_MIB = 2**20
_PHASES = (*PHASES, "send", "recv")
_SHOWN_NS = 5e4  # what takes less has no number


def of_inputs(inputs: Sequence[Path]) -> dict[str, Any] | None:
    """What summary.json says of the ranks, where the one input is a run directory of several."""
    if len(inputs) != 1 or not (inputs[0] / rundir.SUMMARY).is_file():
        return None
    try:
        found = rundir.read_summary(inputs[0])
    except InputError:
        return None
    return found if found.get("ranks") else None


def lines(summary: dict[str, Any]) -> Iterator[str]:
    """How fast all are together, what a pipeline loses by waiting, then a line for each rank."""
    cnt = summary["device_cnt"]
    speed = (summary.get("tokens_per_s") or {}).get("computed")
    rate = f": {speed:,.0f} tokens/s, {speed / cnt:,.0f} a device" if speed else ""
    yield f"{summary['parallel']} on {cnt} devices{rate}"
    if bubble := summary.get("bubble_frac"):
        ideal = "not known" if bubble["ideal"] is None else f"{bubble['ideal']:.1%}"
        yield f"  bubble {bubble['measured']:.1%} of a step (CPU clock), ideal {ideal}"
    for rank in summary["ranks"]:
        yield _rank(rank)


def _rank(rank: dict[str, Any]) -> str:
    peak = max((peak for memory in rank["memory"].values() if (peak := _peak(memory))), default=None)
    parts = [f"{peak / _MIB:,.0f} MiB"] if peak else []
    parts += [f"bubble {rank['bubble_frac']:.0%}"] if "bubble_frac" in rank else []
    phases = rank.get("phase_ns", {})
    longest = sorted((name for name in _PHASES if phases.get(name, 0) >= _SHOWN_NS), key=lambda name: -phases[name])
    times = [f"{name} {phases[name] / 1e6:,.1f}" for name in longest]
    line = f"  rank {rank['rank']}: {', '.join(parts)}"
    before = ", ms: " if parts else "ms: "
    for number, time in enumerate(times):  # what does not fit is in summary.json
        longer = f"{line}{before if number == 0 else ', '}{time}"
        if len(longer) + (3 if number < len(times) - 1 else 0) > WIDTH:
            return f"{line}, …"
        line = longer
    return line


def _peak(memory: dict[str, int | None]) -> int | None:
    """Of torch's allocator on a GPU, else of the process."""
    return memory.get("peak_allocated_bytes") or memory.get("peak_resident_bytes")
