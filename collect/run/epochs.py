"""The timing pass of a task in epochs: every training step timed, validation behind each epoch.

Validation is in no step's time. Passes with a profiler train the first of the same steps and no epochs.
"""

from collections.abc import Callable
from typing import Any

import torch

from ..workload.step import Done
from ..workload.training import Trainer
from . import measure

TimedStep = tuple[int, int, Done]  # start and length in nanoseconds, and what was computed
Run = Callable[[Any], TimedStep]


def train(trainer: Trainer, memory: measure.Memory, run: Run) -> tuple[list[TimedStep], list[dict[str, Any]]]:
    """Train all epochs, `run` does and times a step; gives the steps and an entry for each epoch.

    An entry has summary.EPOCH_COLUMNS. The time is that of the training steps, tokens are those that are no padding,
    losses and accuracies are means over sentences (of training as the model was at each step), peak_vram_gb is what
    torch allocated at most, in 1e9 bytes; None without a GPU.
    """
    every: list[TimedStep] = []
    entries = []
    count = trainer.steps_per_epoch
    for epoch in range(trainer.spec.epochs):
        steps = []
        with memory.phase("steps"):
            for tasks in trainer.iterations(epoch * count, count):
                steps += [run(task) for task in tasks]
        peak = torch.cuda.max_memory_allocated(trainer.device) / 1e9 if trainer.device.type == "cuda" else None
        with memory.phase("validation"):
            found = trainer.evaluate()
        entries.append(_entry(epoch + 1, steps, trainer.adapters[0], peak) | {
            "val_loss": found.loss, "val_acc": found.accuracy
        })  # fmt: skip
        every += steps
    return every, entries


def _entry(epoch: int, steps: list[TimedStep], adapter: Any, peak: float | None) -> dict[str, Any]:
    seconds = sum(wall for _, wall, _ in steps) / 1e9
    tokens = sum(done.tokens[adapter.name][1] for _, _, done in steps)
    sentences = len(steps) * adapter.batch_size * adapter.grad_accum
    correct = sum(int(done.correct) for _, _, done in steps if done.correct is not None)
    return {
        "epoch": epoch, "epoch_time_s": seconds, "throughput_tok_s": tokens / seconds, "peak_vram_gb": peak,
        "train_loss": sum(float(done.losses.sum()) for _, _, done in steps) / len(steps),
        "train_acc": correct / sentences,
    }  # fmt: skip
