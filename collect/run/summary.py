"""Passes' results in, the files that people read out: summary.json, steps.csv, ranges.csv.

Every number of a run is computed here, from the timing pass where it is about time.
"""

import csv
import io
import math
from collections.abc import Iterable
from typing import Any

from ..settings.spec import RunSpec
from . import rank_results
from .formulas import Arithmetic, statistics_of

Result = dict[str, Any]
_GPU_TOLERANCE = 0.01
EPOCH_COLUMNS = (
    "epoch", "epoch_time_s", "throughput_tok_s", "peak_vram_gb", "train_loss", "train_acc", "val_loss", "val_acc"
)  # fmt: skip


def steps_csv(results: dict[str, Result]) -> str:
    """A row for each task of each pass: times in nanoseconds, tokens, and the loss of each adapter that took part.

    With --parallel a row of all ranks together, and one for each rank: its own time, and its share of the loss.
    """
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(
        ("pass", "step", "adapter", "start_ns", "wall_ns", "loss", "computed_token_cnt", "token_cnt",
         "trained_token_cnt", "rank")
    )  # fmt: skip
    for name, result in results.items():
        ranks = [("", result["steps"]), *((n, r["steps"]) for n, r in enumerate(result.get("ranks", ())))]
        for rank, row in ((rank, row) for rank, rows in ranks for row in rows):
            for adapter in row["adapters"]:
                counts = row["tokens"][adapter] if rank == "" else ("", "", "")
                loss = repr(row["losses"][adapter])
                writer.writerow((name, row["step"], adapter, row["start_ns"], row["wall_ns"], loss, *counts, rank))
    return text.getvalue()


def epochs_csv(entries: list[dict[str, Any]]) -> str:
    """A row for each epoch; empty is not measured."""
    text = io.StringIO()
    writer = csv.DictWriter(text, EPOCH_COLUMNS)
    writer.writeheader()
    writer.writerows(entries)
    return text.getvalue()


def ranges_csv(results: dict[str, Result]) -> str:
    """How many ranges each pass opened at each path: what its trace must show."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(("pass", "path", "range_cnt"))
    for name, result in results.items():
        writer.writerows((name, path, count) for path, count in result["ranges"].items())
    return text.getvalue()


def summarise(spec: RunSpec, results: dict[str, Result], walls: dict[str, float]) -> dict[str, Any]:
    """Everything that was measured. None where a number was not measured or is not known; times in nanoseconds."""
    timing = results.get("timing")
    summary: dict[str, Any] = {
        "method": spec.method, "peft_mode": spec.peft_mode, "lora_cnt": spec.lora_cnt, "model": spec.model,
        "quant": spec.quantisation, "step_cnt": spec.steps,
    }  # fmt: skip
    if not results:
        return summary | {"pass_wall_s": walls}
    any_result = timing or next(iter(results.values()))
    summary |= {"device": any_result["device"], "is_compiled": any_result["compiled"]}
    summary |= _times(spec, timing) if timing else {}
    if "ranks" in any_result:
        summary |= rank_results.summary(spec, timing, any_result)
    counts: Result = next((r["counts"] for r in results.values() if r["counts"]), {})
    # in a CUDA graph none are seen
    summary["matrix_products_per_step"] = None if spec.cuda_graph else counts.get("matrix_product_cnt")
    has_gpu = any_result["device"]["type"] == "cuda"
    summary["kernel_launches_per_step"] = counts.get("kernel_launch_cnt") if has_gpu else None
    summary["memory"] = any_result["memory"]
    summary["notes"] = any_result.get("notes", [])
    summary["loss"] = _losses(any_result)
    if timing and timing.get("epochs"):
        last = timing["epochs"][-1]
        summary |= {"sentences": timing["sentences"], "epochs": timing["epochs"]}
        summary["validation"] = {"loss": last["val_loss"], "accuracy_frac": last["val_acc"]}
    passes = [_shared(r["steps"], results) if spec.epochs else r["steps"] for r in results.values()]
    summary["is_same_in_all_passes"] = _are_equal(passes, has_gpu)
    summary["overhead_frac"] = overheads(results)
    summary["pass_wall_s"] = walls
    return summary


def _steps(result: Result) -> list[list[Result]]:
    """Tasks that make one step of all adapters: by number of the step, whatever the order they ran in."""
    grouped: dict[int, list[Result]] = {}
    for row in result["steps"]:
        grouped.setdefault(row["step"], []).append(row)
    return list(grouped.values())


def _wall_of(tasks: list[Result], spec: RunSpec) -> int:
    """How long one step of all adapters took: the sum of its tasks, or of processes side by side the longest."""
    walls = [t["wall_ns"] for t in tasks]
    return max(walls) if spec.peft_mode == "process" else sum(walls)


def step_walls(spec: RunSpec, timing: Result) -> list[int]:
    """How long each step of all adapters took, in ns."""
    return [_wall_of(tasks, spec) for tasks in _steps(timing)]


def _times(spec: RunSpec, timing: Result) -> dict[str, Any]:
    walls = step_walls(spec, timing)
    total_s = sum(walls) / 1e9
    tokens = {a: _tokens(timing, a) for a in _adapters(timing)}
    computed = sum(row["computed_cnt"] for row in timing["steps"])
    kinds = ("computed", "non_padding", "trained")
    sums = [computed, *(sum(t[k] for t in tokens.values()) for k in (1, 2))]
    step = statistics_of(walls)
    flop = _flop(timing)
    peak = timing["arithmetic"]["peak_flop_s"]
    return {
        "step_wall_ns": step,
        "task_step_wall_ns": statistics_of([w / max(1, spec.lora_cnt) for w in walls]),
        "tokens_per_s": {k: n / total_s for k, n in zip(kinds, sums, strict=True)},
        "adapter_tokens_per_s": {
            a: {k: n / total_s for k, n in zip(kinds, counts, strict=True)} for a, counts in tokens.items()
        },
        "flop_per_step": flop / max(1, len(walls)),
        "flop_per_s": flop / total_s,
        # of the model's arithmetic, and of all that the hardware did for it (PaLM's appendix B)
        "mfu_frac": _flop(timing, with_recomputed=False) / total_s / peak if peak else None,
        "hfu_frac": flop / total_s / peak if peak else None,
        "input": None if "ranks" in timing else _input(spec, timing["steps"]),
        "optimizer_frac": None if "ranks" in timing else _part(timing["steps"], "optimizer_ns"),
    }


def _input(spec: RunSpec, rows: list[Result]) -> dict[str, float] | None:
    """Of the steps the part that waited for input, and how long making that of a step took, wherever.

    Without the first, for which no worker of the loader had made anything yet. None where it was not measured.
    """
    later = [row for row in rows if row["step"] != rows[0]["step"]] or rows
    if any("made_ns" not in row for row in later):
        return None
    side_by_side = spec.lora_cnt if spec.peft_mode == "process" else 1
    step_cnt = len({row["step"] for row in later}) * side_by_side
    made = sum(row["made_ns"] for row in later) / step_cnt
    return {"waited_frac": _part(later, "waited_ns") or 0.0, "made_ns": made}


def _part(rows: list[Result], what: str) -> float | None:
    """Of the steps the part in which the CPU did this; None where it was not measured."""
    if any(what not in row for row in rows):
        return None
    found: float = sum(row[what] for row in rows) / sum(row["wall_ns"] for row in rows)
    return found


def _tokens(timing: Result, adapter: str) -> list[int]:
    """(computed, non-padding, trained) tokens of an adapter in all measured steps."""
    of_steps = [row["tokens"][adapter] for row in timing["steps"] if adapter in row["tokens"]]
    return [sum(step[kind] for step in of_steps) for kind in (0, 1, 2)]


def _flop(timing: Result, *, with_recomputed: bool = True) -> float:
    """Arithmetic of all measured steps: only tokens that are no padding count as useful."""
    counted = Arithmetic(**{k: v for k, v in timing["arithmetic"].items() if k != "peak_flop_s"})
    total = 0.0
    for row in timing["steps"]:
        for adapter, (_, real, _trained) in row["tokens"].items():
            looked_at = row["longest"] * counted.looked_at_frac
            total += counted.of(real, looked_at, adapter, with_recomputed=with_recomputed)
    return total


def _adapters(result: Result) -> list[str]:
    return list(dict.fromkeys(a for row in result["steps"] for a in row["adapters"]))


def _losses(result: Result) -> dict[str, dict[str, float | None]]:
    """First and last loss of each adapter; None for one that is no number, which JSON cannot write."""
    found: dict[str, dict[str, float | None]] = {}
    for adapter in _adapters(result):
        values = [row["losses"][adapter] for row in result["steps"] if adapter in row["losses"]]
        first, last = (value if math.isfinite(value) else None for value in (values[0], values[-1]))
        found[adapter] = {"first": first, "last": last}
    return found


def _shared(steps: list[Result], results: dict[str, Result]) -> list[Result]:
    """The steps that all passes took: one in epochs goes on where those with a profiler end."""
    last = min(max((row["step"] for row in result["steps"]), default=0) for result in results.values())
    return [row for row in steps if row["step"] <= last]


def _are_equal(passes: Iterable[list[Result]], has_gpu: bool) -> bool:
    """Whether all passes had the same losses: profilers and ranges must not change what is trained.

    Bit by bit on the CPU. On a GPU within 1 %, because the backward of attention adds in no fixed order.
    """
    seen = [{(row["step"], a): loss for row in steps for a, loss in row["losses"].items()} for steps in passes]
    return all(s.keys() == seen[0].keys() and all(_is_close(s[k], seen[0][k], has_gpu) for k in s) for s in seen)


def _is_close(one: float, other: float, has_gpu: bool) -> bool:
    # as texts: a loss that is no number is not equal to itself
    return repr(one) == repr(other) or (has_gpu and math.isclose(one, other, rel_tol=_GPU_TOLERANCE))


def overheads(results: dict[str, Result]) -> dict[str, float | None]:
    """What ranges, and each profiler with them, add to the median step of the timing pass."""
    timing = results.get("timing")
    if timing is None:
        return {}
    base = statistics_of([row["wall_ns"] for row in timing["steps"]])["p50"]
    found: dict[str, float | None] = {"ranges": timing["ranges_frac"]}
    for name, result in results.items():
        own = statistics_of([row["wall_ns"] for row in result["steps"]])["p50"]
        if name != "timing":
            found[name] = own / base - 1 if own and base else None
    return found
