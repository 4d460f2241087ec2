"""What ranks measured as the result of one run: shares of losses add up, a step takes as long as its slowest rank.

Times are of one machine's monotonic clock, so those of different ranks can be compared.
"""

from collections import Counter
from typing import Any

from ..settings import parallelism
from ..settings.spec import RunSpec

Result = dict[str, Any]


def merged(spec: RunSpec, results: list[Result]) -> Result:
    """One result of all ranks, as of one process; under "ranks" what each measured itself."""
    first = results[0]
    ranges: Counter[str] = Counter()
    for result in results:
        ranges.update(result["ranges"])
    found = {
        **first,
        "steps": _steps([r["steps"] for r in results]),
        "diverged": next((r["diverged"] for r in results if r["diverged"]), None),
        "counts": first["counts"] and {k: sum(r["counts"][k] for r in results) for k in first["counts"]},
        "ranges": dict(ranges),
        "memory": _largest([r["memory"] for r in results]),
        "ranks": [{"steps": r["steps"], "memory": r["memory"]} for r in results],
    }
    if "arithmetic" in first:
        found["arithmetic"] = _arithmetic(spec, [r["arithmetic"] for r in results])
    return found


def _steps(of_ranks: list[list[Result]]) -> list[Result]:
    """The tasks of all ranks: every one drew the same batches, so tokens are the first's.

    A task begins when the first rank does, but not before the slowest has ended the one before: so times add up, also
    where a rank is steps ahead of another (lorapp).
    """
    found: list[Result] = []
    before = 0
    for rows in zip(*of_ranks, strict=True):
        start = max(before, min(row["start_ns"] for row in rows))
        before = max(row["start_ns"] + row["wall_ns"] for row in rows)
        losses = {name: sum(row["losses"][name] for row in rows) for name in rows[0]["losses"]}
        found.append({**rows[0], "start_ns": start, "wall_ns": before - start, "losses": losses})
    return found


def _largest(memories: list[dict[str, dict[str, int | None]]]) -> dict[str, dict[str, int | None]]:
    """Of each phase the memory of the device that needs most."""

    def largest(phase: str, key: str) -> int | None:
        return max((value for m in memories if (value := m.get(phase, {}).get(key)) is not None), default=None)

    return {phase: {key: largest(phase, key) for key in values} for m in memories for phase, values in m.items()}


def _arithmetic(spec: RunSpec, parts: list[Result]) -> Result:
    """FLOP of a token over the whole model: stages of a pipeline have parts of it; the peak is that of all devices."""
    first = parts[0]
    peak = first["peak_flop_s"] and first["peak_flop_s"] * len(parts)
    if spec.parallel not in parallelism.PIPELINES:
        return {**first, "peak_flop_s": peak}
    adapters: Counter[str] = Counter()
    for part in parts:
        adapters.update(part["adapter"])
    return {
        **first,
        **{what: sum(part[what] for part in parts) for what in ("frozen", "trained", "head")},
        "adapter": dict(adapters),
        "peak_flop_s": peak,
    }


def summary(spec: RunSpec, timing: Result | None, any_result: Result) -> Result:
    """What summary.json says of the ranks of a run."""
    found: Result = {"parallel": spec.parallel, "device_cnt": spec.devices}
    if spec.parallel == "pp":
        found["pp_schedule"] = spec.pp_schedule
    found["ranks"] = [
        {"rank": n, "memory": own["memory"], **(_times(spec, n, timing) if timing else {})}
        for n, own in enumerate(any_result["ranks"])
    ]
    if timing and spec.parallel in parallelism.PIPELINES:
        fractions = [own["bubble_frac"] for own in found["ranks"]]
        found["bubble_frac"] = {"measured": sum(fractions) / len(fractions), "ideal": parallelism.ideal_bubble(spec)}
    return found


def _times(spec: RunSpec, number: int, timing: Result) -> Result:
    """How long a rank computed, of the timing pass; in pipelines the rest is waiting and sending."""
    own = timing["ranks"][number]["steps"]
    walls = sum(row["wall_ns"] for row in own)
    phases: Counter[str] = Counter()
    for row in own:
        phases.update(row["phase_ns"])
    tokens = sum(row["own_cnt"] for row in own)
    step_cnt = len({row["step"] for row in own})  # of all adapters, as step_wall_ns
    found: Result = {
        "phase_ns": {name: ns / step_cnt for name, ns in phases.items()},
        "computed_tokens_per_s": tokens / (walls / 1e9),
    }
    if spec.parallel in parallelism.PIPELINES:
        busy = sum(ns for name, ns in phases.items() if name in parallelism.BUSY)
        found["bubble_frac"] = max(0.0, 1 - busy / walls)
    return found
