"""Puts PEFT adapters on a base model, the same weights and masks for an adapter whoever else is there."""

import difflib
import zlib
from typing import Any

import torch
from torch import nn

from ...errors import UsageError
from ..batch_lora.dropout import Clock
from ..batch_lora.layers import lora_layers, replay_dropout
from ..settings.presets import ATTENTION
from ..settings.spec import AdapterSpec, RunSpec
from .models import is_classifier


def attach(model: Any, spec: RunSpec, adapters: list[AdapterSpec], clock: Clock) -> Any:
    """A PeftModel over the base with all adapters, each initialised from the seed and its own name.

    B is not left at zero but drawn small: a first step then has gradients everywhere and no shortcuts.
    Raises UsageError when a target names no layer of the model.
    """
    from peft import LoraConfig, get_peft_model

    task = "SEQ_CLS" if is_classifier(model) else "CAUSAL_LM"
    peft: Any = None
    for adapter in adapters:
        check_targets(model, adapter)
        config = LoraConfig(
            r=adapter.rank,
            lora_alpha=adapter.alpha,  # type: ignore[arg-type]  # PEFT says int and divides it
            lora_dropout=adapter.dropout,
            target_modules=_targets(model, adapter),
            task_type=task,
        )
        try:
            if peft is None:
                peft = get_peft_model(
                    model, config, adapter_name=adapter.name, autocast_adapter_dtype=spec.adapter_dtype == "float32"
                )
            else:
                peft.add_adapter(adapter.name, config)
        except ValueError as error:
            raise UsageError(f"--target-modules {','.join(adapter.target_modules)}: {error}") from error
        initialise(peft, adapter.name, spec.seed)
    replay_dropout(peft, clock)
    return peft


def check_targets(model: nn.Module, adapter: AdapterSpec) -> None:
    """Raise UsageError for a target that names no layer: PEFT is content with one that does."""
    names = [name for name, _ in model.named_modules()]
    for target in adapter.target_modules if adapter.target_modules != ("all-linear",) else ():
        if any(name == target or name.endswith(f".{target}") for name in names):
            continue
        linear = {n.rsplit(".", 1)[-1]: None for n, m in model.named_modules() if hasattr(m, "in_features")}
        close = difflib.get_close_matches(target, linear, 3) or list(linear)
        raise UsageError(f"--target-modules: no layer is named {target}; closest are {', '.join(close)}")


def _targets(model: nn.Module, adapter: AdapterSpec) -> Any:
    if adapter.target_modules == ("all-linear",):
        return "all-linear"
    if adapter.target_modules:
        return list(adapter.target_modules)
    model_type = getattr(getattr(model, "config", None), "model_type", "")
    return list(ATTENTION.get(model_type, ATTENTION[""]))


def initialise(model: nn.Module, adapter: str, seed: int) -> None:
    """Draw the adapter's weights from the seed and its name alone."""
    random = torch.Generator().manual_seed(seed * 1_000_003 + zlib.crc32(adapter.encode()) + 1)
    for layer in lora_layers(model).values():
        if adapter not in layer.lora_A:
            continue
        for factor in (layer.lora_A[adapter].weight, layer.lora_B[adapter].weight):
            drawn = torch.randn(factor.shape, generator=random) * 0.02
            with torch.no_grad():
                factor.copy_(drawn)


def parameters_of(model: nn.Module, adapter: str) -> list[nn.Parameter]:
    """The trainable parameters of one adapter, its own copy of a classifier head included."""
    return [p for n, p in model.named_parameters() if f".{adapter}." in f"{n}." and not n.endswith("base_layer.weight")]
