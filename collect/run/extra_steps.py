"""What a timing pass does behind its measured steps: memory by phase, what ranges cost, a token's arithmetic."""

import dataclasses
import time
from contextlib import ExitStack
from typing import Any

from ..instruments import spans
from ..workload import models
from . import measure
from .formulas import statistics_of

_OVERHEAD_PAIRS = 5  # steps with and without ranges, in turn


def _tasks_of(trainer: Any, step: int) -> list[Any]:
    return [task for tasks in trainer.iterations(step, 1) for task in tasks]


def measure_phases(trainer: Any, memory: Any, step: int) -> None:
    """One more step, in which memory is read at the borders of phases; it is not among the measured."""
    before, trainer.phase = trainer.phase, memory.phase
    graphs, trainer.graphs = trainer.graphs, None  # in which a step has no phases
    for task in _tasks_of(trainer, step):
        trainer.run(task)
    trainer.phase, trainer.graphs = before, graphs


def range_overhead(trainer: Any, device: Any, step: int) -> float | None:
    """What ranges add to a step, as a fraction: steps with and without them in turn, medians."""
    walls: dict[bool, list[int]] = {False: [], True: []}
    for pair in range(_OVERHEAD_PAIRS):
        for is_on in (False, True):
            with ExitStack() as stack:
                if is_on:
                    stack.enter_context(trainer.annotate())
                    stack.enter_context(spans.rehearsed())
                tasks = _tasks_of(trainer, step + 2 * pair + is_on)
                measure.synchronize(device)
                start = time.perf_counter_ns()
                for task in tasks:
                    trainer.run(task)
                measure.synchronize(device)
                walls[is_on].append(time.perf_counter_ns() - start)
    without = statistics_of(walls[False])["p50"]
    with_ranges = statistics_of(walls[True])["p50"]
    return with_ranges / without - 1 if with_ranges and without else None


def arithmetic(trainer: Any, device: Any) -> dict[str, Any]:
    """FLOP of a token of each adapter, to be multiplied with the tokens, and the device's peak."""
    model = getattr(trainer.model, "_orig_mod", trainer.model)
    counted = measure.arithmetic(model, trainer.spec.gradient_checkpointing, trainer.adapter_flop(), trainer.spec.loss)
    peak = measure.peak_flop_s(device, models.product_dtype(trainer.spec, device))
    return {**dataclasses.asdict(counted), "peak_flop_s": peak}
