"""Puts PEFT adapters on a base model, the same weights and masks for an adapter whoever else is there."""

import difflib
import zlib
from typing import Any

import torch
from torch import nn

from ...errors import UsageError
from ..batch_lora.dropout import Clock
from ..batch_lora.layers import lora_layers, replay_dropout
from ..settings.presets import ATTENTION, HEADS
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
    targets = {}
    for adapter in adapters:
        check_targets(model, adapter)
        targets[adapter.name] = _targets(model, adapter)
    for adapter in adapters:
        config = LoraConfig(
            r=adapter.rank,
            lora_alpha=adapter.alpha,  # type: ignore[arg-type]  # PEFT says int and divides it
            lora_dropout=adapter.dropout,
            target_modules=targets[adapter.name],
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
    chosen = _targets(model, adapter)
    modules = dict(model.named_modules())
    for target in chosen if isinstance(chosen, list) else ():
        found = [m for name, m in modules.items() if name == target or name.endswith(f".{target}")]
        linear = {n.rsplit(".", 1)[-1]: None for n, m in modules.items() if hasattr(m, "in_features") or _is_conv(m)}
        if not found and not adapter.target_modules:
            raise UsageError(
                f"--target-modules attention: this model has no layers {target}; name layers of {', '.join(linear)}"
            )
        if not found:
            close = difflib.get_close_matches(target, linear, 3) or list(linear)
            raise UsageError(f"--target-modules: no layer is named {target}; closest are {', '.join(close)}")
        if not list(found[0].parameters(recurse=False)):
            kind, inside = type(found[0]).__name__, ", ".join(name for name, _ in found[0].named_children())
            raise UsageError(f"--target-modules: {target} is a {kind}, not a layer with weights; it holds {inside}")


def _is_conv(module: nn.Module) -> bool:
    """GPT-2's linear layers."""
    return type(module).__name__ == "Conv1D"


def _targets(model: nn.Module, adapter: AdapterSpec) -> Any:
    """What PEFT is told: layers' names, or its word for all."""
    if adapter.target_modules == ("all-linear",):
        return "all-linear" if not is_classifier(model) else _linears_but_heads(model)
    if adapter.target_modules:
        return list(adapter.target_modules)
    model_type = getattr(getattr(model, "config", None), "model_type", "")
    return list(ATTENTION.get(model_type, ATTENTION[""]))


def _linears_but_heads(model: nn.Module) -> list[str]:
    """PEFT's all-linear of a classifier takes layers of the head, which it then trains whole and cannot wrap."""
    names = [n for n, m in model.named_modules() if hasattr(m, "in_features")]
    return [name for name in names if name.rsplit(".", 1)[-1] not in HEADS]


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
