"""How a run of `lorabench collect` went and what it measured, a line each."""

import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ... import rundir
from ..answer.step_text import is_uneven
from ..comparison import noise, run_steps
from ..comparison.spread import FEW_STEPS
from ..tables.units import said_ns, significant
from . import rank_text

_UNEVEN_FRAC = 0.5  # of the median step: where the middle half of the steps spans more, something else worked, too
_LEAST_PADDING = 0.1  # of the tokens: less is not worth a word
_MOST_SIZES = 4  # numbers of tokens that are told one by one
_UNFIT_FRAC = 0.5  # of a step: a profiler that costs more leaves times of ranges that say little of the program


def lines(manifest: dict[str, Any], path: Path) -> Iterator[str]:
    """Passes that did not go well, steps, ranks, epochs, statistics, what profilers cost, and doubts."""
    for name, state in manifest["passes"].items():
        if state["status"] != rundir.OK:
            yield f"pass {name}: {'' if state.get('has_run') else state['status'] + ': '}{state['message']}"
    summary = rundir.read_summary(path)
    yield from summary.get("notes", ())
    if step := summary.get("step_wall_ns"):
        rates = summary["tokens_per_s"]
        padded = ", padding included"  # of a command whose masks were not seen nobody knows what is padding
        if "non_padding" in rates:
            padding = 1 - rates["non_padding"] / (rates["computed"] or 1)
            padded = f" ({padding:.0%} padding)" if padding >= _LEAST_PADDING else ""
        cnt = len(summary.get("processes", ()))
        whose = f" in one of {cnt} processes" if cnt > 1 else ""  # which may all have had the same
        tokens = f", {rates['computed']:,.0f} tokens/s on average{whose}{padded}" if rates.get("computed") else ""
        is_mean = bool(step.get("mean")) and is_uneven(step["mean"], step["p50"])
        said = (
            f"step {step['mean'] / 1e6:,.1f} ms on average" if is_mean else f"median step {step['p50'] / 1e6:,.1f} ms"
        )
        yield f"{said} (p95 {step['p95'] / 1e6:,.1f}){tokens}"
    if summary.get("ranks"):
        yield from rank_text.lines(summary)
    for epoch in summary.get("epochs", []):
        yield (
            f"epoch {epoch['epoch']}: {epoch['epoch_time_s']:,.1f} s, train loss {epoch['train_loss']:.4f} accuracy "
            f"{epoch['train_acc']:.1%}, validation loss {epoch['val_loss']:.4f} accuracy {epoch['val_acc']:.1%}"
        )
    for name, value in rundir.read_stats(path).items():
        if value is not None:
            yield f"{name} {significant(value, 6)}"
    yield from costs(path, summary)
    if summary.get("is_same_in_all_passes") is False:
        yield "warning: the passes did not compute the same losses; their traces may differ, too"


def costs(path: Path, summary: dict[str, Any]) -> Iterator[str]:
    """What ranges and profilers cost, and whether steps differ too much among themselves to say."""
    known = {name: cost for name, cost in summary.get("overhead_frac", {}).items() if cost is not None}
    steps = run_steps.of_summary(path, summary)
    width = (steps.frac if steps else None) or 0.0
    is_apart = width > _UNEVEN_FRAC
    is_one = steps is not None and steps.step_cnt == 1
    if is_apart and (work := _other_work(path, summary)):
        yield work
    elif is_apart and (waited := _burst(summary)):
        yield waited
    elif is_apart:
        which = "the middle half of the steps spans" if steps and steps.step_cnt >= FEW_STEPS else "the steps span"
        yield f"{which} {width:.0%} of their median: times and costs say little; is the machine busy? Collect again"
    if known:
        said = ", ".join(f"{name} {_said(cost, width, is_one)}" for name, cost in known.items())
        yield f"cost on top of a step: {said}"
    heavy = [name for name, cost in known.items() if name != "ranges" and cost > _UNFIT_FRAC]
    if heavy and not is_apart:
        yield f"times of ranges under {' and '.join(heavy)} are mostly the profiler's: compare those of timing"


def _burst(summary: dict[str, Any]) -> str:
    """That batches come as loaders' workers finish them, several at once, where steps wait for most of the time."""
    loader = summary.get("loader") or {}
    workers, step, waited = int(loader.get("worker_cnt", 0)), loader.get("step_ns"), loader.get("waited_ns", 0)
    if workers < 2 or not step or 2 * waited < step:
        return ""
    return (
        f"steps wait for input {waited / step:.0%} of the time, and {workers} workers finish batches at about the same "
        f"time: some wait long, others hardly; on average a step takes {said_ns(step)}"
    )


def _said(cost: float, width: float, is_one: bool) -> str:
    """A cost of steps whose middle half is so wide, in words: nothing makes steps faster, so below 0 it is noise."""
    if cost < 0 and is_one:
        return "not known: that takes more than one step"
    if cost < 0:
        return (
            "too small to measure" if width <= _UNEVEN_FRAC and -cost <= width / 2 else "not known: steps vary too much"
        )
    return f"{cost:+.1%}{' (within the spread of steps)' if cost < width / 2 else ''}"


def _other_work(path: Path, summary: dict[str, Any]) -> str:
    """How long steps take by their number of tokens, or of batches, where one of these explains how unlike they are."""
    if "command" not in summary:  # of other runs a step may be rows of several adapters
        return ""
    by_tokens = {
        f"{tokens:,} tokens": tuple(statistics.quantiles(walls, n=4, method="inclusive"))
        for tokens, walls in run_steps.by_tokens(path).items()
        if len(walls) >= noise.LEAST_STEPS
    }
    by_batches = {
        f"{group['batch_cnt']}": (group["low_ns"], group["median_ns"], group["high_ns"])
        for group in summary.get("by_batches", ())
        if group["step_cnt"] >= noise.LEAST_STEPS
    }
    return _explained("differ in what they compute", by_tokens) or _explained(
        "take unlike numbers of batches", by_batches
    )


def _explained(how: str, groups: Mapping[str, tuple[float, ...]]) -> str:
    """How long the steps of each group take, by their quartiles; "" where those of one are as unlike as all."""
    if not 2 <= len(groups) <= _MOST_SIZES:
        return ""
    medians = [median for _, median, _ in groups.values()]
    widths = [high - low for low, _, high in groups.values()]
    are_apart = any(width > _UNEVEN_FRAC * median for width, median in zip(widths, medians, strict=True))
    if are_apart or max(widths) > max(medians) - min(medians):
        return ""
    told = ", ".join(f"those of {name} take {said_ns(median)}" for name, (_, median, _) in groups.items())
    return f"steps {how}: {told}; their median says little"
