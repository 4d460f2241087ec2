"""Numbers of a command's run, from the clock of the hook: step times, tokens, memory, what the profilers cost.

Times are of one process, the first rank that trains; not synchronized, but from the end of an optimizer step to the
next end, so over several steps they are what training takes. The first step is warm-up.
"""

import csv
import io
import os
import statistics
from typing import Any

from ..processes import provenance
from ..run.formulas import statistics_of
from .gathered import Gathered, Record, Step

_WARMUP_STEPS = 1
_COLUMNS = ("pass", "step", "adapter", "start_ns", "wall_ns", "loss", "computed_token_cnt", "token_cnt",
            "trained_token_cnt")  # fmt: skip

Result = dict[str, Any]


def of_pass(gathered: Gathered) -> Result | None:
    """What a pass measured; None where no process made an optimizer step."""
    trained = gathered.trained()
    if not trained:
        return None
    record, steps = trained[0]
    own = {name: record.get(name) for name in ("peak_resident_bytes", "peak_allocated_bytes", "peak_reserved_bytes")}
    return {
        "steps": steps,
        "turn": gathered.turn,
        "device": record.get("device"),
        "memory": own,
        "frameworks": record.get("frameworks", []),
        "is_16bit": record.get("is_16bit", False),
        "loader": _slowest_loader(trained),
        "processes": [
            {"rank": record["rank"], "step_cnt": len(steps), "step_wall_ns": statistics_of(_walls(steps))["p50"]}
            for record, steps in trained
        ],
    }


def _counted(steps: list[Step]) -> list[Step]:
    """The steps without warm-up; of a single one that."""
    return steps[_WARMUP_STEPS:] or steps


def _walls(steps: list[Step]) -> list[int]:
    return [step.wall_ns for step in _counted(steps)]


def steps_csv(results: dict[str, Result]) -> str:
    """A row for each step of each pass, numbered from 1, or as they say (a profiler's from 0); empty without steps."""
    text = io.StringIO()
    writer = csv.writer(text)
    for name, result in results.items():
        for number, step in enumerate(result["steps"], 1):
            if number > _WARMUP_STEPS or len(result["steps"]) == 1:
                said = number if step.number is None else step.number
                writer.writerow((name, said, "", step.start_ns, step.wall_ns, "", step.token_cnt or "", "", ""))
    return ",".join(_COLUMNS) + "\r\n" + text.getvalue() if text.getvalue() else ""


def summarise(command: list[str], results: dict[str, Result], walls: dict[str, float]) -> dict[str, Any]:
    """Everything that was measured; what was not is left out."""
    summary: dict[str, Any] = {"command": command}
    timing = results.get("timing")
    if timing:
        counted = _counted(timing["steps"])
        total_s = sum(step.wall_ns for step in counted) / 1e9
        tokens = sum(step.token_cnt for step in counted)
        padding = _padding(counted)
        rates = {"computed": tokens / total_s} if tokens and total_s else {}
        if padding and rates:
            rates["non_padding"] = rates["computed"] * padding["real_token_cnt"] / padding["token_cnt"]
        summary |= {
            "step_cnt": len(counted), "warmup_step_cnt": len(timing["steps"]) - len(counted),
            "step_wall_ns": statistics_of(_walls(timing["steps"])),
            "tokens_per_s": rates,
            "device": timing["device"], "memory": {"steps": timing["memory"]}, "processes": timing["processes"],
            "frameworks": timing.get("frameworks", []),
            "is_16bit": timing.get("is_16bit"), "cpu_has_bfloat16": provenance.has_bfloat16(),
        }  # fmt: skip
        if loader := timing.get("loader"):
            summary["loader"] = loader
        if by_batches := _by_batches(counted):
            summary["by_batches"] = by_batches
        if padding:
            summary["padding"] = padding
        if micro_step_cnt := _micro_step_cnt(counted):
            summary["micro_step_cnt"] = micro_step_cnt
        summary["overhead_frac"] = _overheads(timing, results)
    return summary | {"pass_wall_s": walls}


def _usual(steps: list[Step]) -> list[Step]:
    """The steps without those that evaluate, of which batches are no input of the training.

    Other numbers of batches alone say nothing: Accelerate's loaders are one batch ahead, so that the first step of an
    epoch takes one more and the last one less.
    """
    batch_cnt = statistics.mode(step.batch_cnt for step in steps)
    unlearned_cnt = statistics.median(step.unlearned_cnt for step in steps)
    return [step for step in steps if step.batch_cnt <= batch_cnt or step.unlearned_cnt <= unlearned_cnt]


def _by_batches(steps: list[Step]) -> list[dict[str, float]]:
    """How long steps take by how many batches of loaders they take: the quartiles; empty where all take as many."""
    found = []
    for batch_cnt in sorted({step.batch_cnt for step in steps}):
        walls = [step.wall_ns for step in steps if step.batch_cnt == batch_cnt]
        low, median, high = statistics.quantiles(walls, n=4, method="inclusive") if len(walls) > 1 else walls * 3
        found.append(
            {"batch_cnt": batch_cnt, "step_cnt": len(walls), "low_ns": low, "median_ns": median, "high_ns": high}
        )
    return found if len(found) > 1 else []


def _padding(steps: list[Step]) -> dict[str, float] | None:
    """Tokens of a step's attention masks, the mean: all, those that are no padding, and all if each batch was padded to
    its longest sequence. None where no mask was seen.
    """
    usual = _usual(steps)
    token_cnt, real_cnt, longest_cnt = (
        statistics.fmean(counts)
        for counts in zip(*((s.masked_cnt, s.real_cnt, s.longest_cnt) for s in usual), strict=True)
    )
    if not token_cnt:
        return None
    return {"token_cnt": token_cnt, "real_token_cnt": real_cnt, "longest_token_cnt": longest_cnt}


def _micro_step_cnt(steps: list[Step]) -> int:
    """How many backwards of its one optimizer a step has; 0 where it has several, or none was seen."""
    usual = _usual(steps)
    if statistics.mode(step.optimizer_cnt for step in usual) != 1:
        return 0
    return statistics.mode(step.backward_cnt for step in usual)


def _slowest_loader(trained: list[tuple[Record, list[Step]]]) -> dict[str, float] | None:
    """The loader that its process waits for most, for which the others wait in turn: of several it says whose it is."""
    found = [(record["rank"], loader) for record, steps in trained if (loader := _loader(_counted(steps)))]
    if not found:
        return None
    rank, slowest = max(found, key=lambda one: one[1]["waited_ns"])
    return slowest | ({"rank": rank} if len(found) > 1 and rank is not None else {})


def _loader(steps: list[Step]) -> dict[str, float] | None:
    """How long steps wait for the batches of loaders, and what the fastest takes beside that; None without any."""
    usual = _usual(steps)
    batch_cnt = statistics.fmean(step.batch_cnt for step in usual)
    if not batch_cnt:
        return None
    return {
        "waited_ns": statistics.fmean(step.waited_ns for step in usual),
        "step_ns": statistics.fmean(step.wall_ns for step in usual),
        "own_ns": min(step.wall_ns - step.waited_ns for step in usual),
        "batch_cnt": batch_cnt,
        "worker_cnt": statistics.mode(step.worker_cnt for step in usual),
        "core_cnt": len(os.sched_getaffinity(0)),  # more workers than these torch warns of
    }


def _overheads(timing: Result, results: dict[str, Result]) -> dict[str, float]:
    """What each profiler adds to the median step, over the steps that both passes have."""
    found = {}
    for name, result in results.items():
        count = min(len(timing["steps"]), len(result["steps"]))
        base, own = (statistics_of(_walls(r["steps"][:count]))["p50"] for r in (timing, result))
        if name != "timing" and base and own:
            found[name] = own / base - 1
    return found
