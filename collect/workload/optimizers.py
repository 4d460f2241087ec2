"""Optimizers by name, and the learning rate of a step."""

import math
from functools import partial
from typing import Any

import torch

from ..settings.spec import RunSpec


def make(spec: RunSpec, groups: list[Any], learning_rate: float) -> torch.optim.Optimizer:
    """The optimizer of one adapter."""
    kinds: dict[str, Any] = {
        "adamw": torch.optim.AdamW,
        "adamw-fused": partial(torch.optim.AdamW, fused=True),
        "adamw-foreach": partial(torch.optim.AdamW, foreach=True),
        "adafactor": torch.optim.Adafactor,
        "sgd": torch.optim.SGD,
    }
    options = {"weight_decay": spec.weight_decay} if spec.optimizer.startswith("adamw") else {}
    if spec.optimizer == "adamw-8bit":
        import bitsandbytes

        kinds["adamw-8bit"] = bitsandbytes.optim.AdamW8bit
    made: torch.optim.Optimizer = kinds[spec.optimizer](groups, lr=learning_rate, **options)
    return made


def rate_factor(schedule: str, warmup: int, total: int, step: int) -> float:
    """What the learning rate is multiplied with in a step of so many, counted from 0: as transformers' schedules."""
    if step < warmup:
        return step / warmup
    if schedule == "constant":
        return 1.0
    left = max(1, total - warmup)
    if schedule == "linear":
        return max(0.0, (total - step) / left)
    return max(0.0, 0.5 * (1 + math.cos(math.pi * (step - warmup) / left))) if step < total else 0.0
