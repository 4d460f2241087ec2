"""Puts PEFT adapters on a base model, the same weights and masks for an adapter whoever else is there."""

import difflib
from typing import Any

from torch import nn

from ...errors import UsageError
from ..batch_lora.dropout import Clock
from ..batch_lora.layers import replay_dropout
from ..settings.presets import ATTENTION, HEADS
from ..settings.spec import AdapterSpec, RunSpec
from .kinds import kind_of
from .models import is_classifier


def attach(model: Any, spec: RunSpec, adapters: list[AdapterSpec], clock: Clock) -> Any:
    """A PeftModel over the base with all adapters, each initialized from the seed and its own name.

    Raises UsageError when a target names no layer of the model, or one that PEFT cannot adapt.
    """
    from peft import get_peft_model

    kind = kind_of(spec)
    task = "SEQ_CLS" if is_classifier(model) else "CAUSAL_LM"
    peft: Any = None
    is_float32 = spec.adapter_dtype == "float32"
    targets = {}
    for adapter in adapters:
        check_targets(model, adapter)
        targets[adapter.name] = _targets(model, adapter)
    for adapter in adapters:
        config = kind.config(adapter, targets[adapter.name], task, model)
        try:
            with kind.seeded(adapter):
                if peft is None:
                    peft = get_peft_model(model, config, adapter_name=adapter.name, autocast_adapter_dtype=is_float32)
                else:
                    peft.add_adapter(adapter.name, config, autocast_adapter_dtype=is_float32)
        except (ValueError, TypeError, NotImplementedError) as error:
            names = ",".join(adapter.target_modules) or "attention"
            kind_named = "" if spec.adapter_kind == "lora" else f"--adapter-kind {spec.adapter_kind}, "
            raise UsageError(f"{kind_named}--target-modules {names}: {error}") from error
        kind.initialise(peft, adapter)
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
        if not [*found[0].parameters(recurse=False), *found[0].buffers(recurse=False)]:  # GPTQ's are buffers
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


def parameters_of(model: nn.Module, adapter: str) -> dict[str, nn.Parameter]:
    """The trainable parameters of one adapter by name, its own copy of a classifier head included."""
    return {
        name: parameter
        for name, parameter in model.named_parameters()
        if f".{adapter}." in f"{name}." and not name.endswith(("base_layer.weight", f".ranknum.{adapter}"))
    }
