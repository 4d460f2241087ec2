"""RunSpec's fields as options of the command line, so that each is written down once.

Knows typer's parameter objects only by what the caller passes in: the command line decides how they look.
"""

import dataclasses
import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any

from .spec import RunSpec

_METAVARS = {int: "N", float: "X", str: "TEXT"}
_COLUMNS = 80
# The help has a section for each.
GROUPS = {
    "Adapters": (
        "method", "lora_cnt", "peft_mode", "adapter_kind", "rank", "alpha", "dropout", "target_modules",
        "adapter_dtype", "adapter_storage", "lora_plus_ratio", "batch_operator", "graph_pruning",
    ),
    "Model": (
        "model", "quant", "dtype", "autocast", "attention", "gradient_checkpointing", "reentrant", "compile",
        "force_compile", "cuda_graph", "loss", "device",
    ),
    "Data": (
        "seq_len", "batch_size", "data", "train_on", "packing", "lengths", "batch", "loader_workers", "pin_memory",
        "batch_delay_ms", "seed",
    ),
    "Training": (
        "steps", "warmup", "grad_accum", "learning_rate", "optimizer", "weight_decay", "lr_schedule",
        "lr_warmup_steps", "trainer",
    ),
    "Profiling": (
        "profiler", "range_depth", "wait_steps", "warmup_steps", "active_steps", "repeat", "profiling_frequency",
        "profiler_step", "with_stack", "with_shapes", "timeout_s",
    ),
    "Several devices": ("parallel", "devices", "pp_schedule", "micro_batches", "balance", "overlap", "cpu_offload"),
    "A task in epochs": ("task", "epochs", "run_id", "tensorboard", "wandb", "wandb_project", "wandb_mode"),
}  # fmt: skip


# What a run of a sweep is unless it is asked for otherwise.
SWEEP_DEFAULTS = {"profiler": "timing"}


def parameters(option: Callable[..., Any], defaults: Mapping[str, Any]) -> list[inspect.Parameter]:
    """One keyword parameter for each field, annotated as `option(*names, help=…)` wants; None means not given.

    defaults: those of a command that has others than a run.
    """
    hints = typing.get_type_hints(RunSpec)
    fields = {field.name: field for field in dataclasses.fields(RunSpec)}
    return [
        _parameter(fields[name], hints[name], option, group, defaults.get(name, fields[name].default))
        for group, names in GROUPS.items()
        for name in names
    ]


def _parameter(
    field: "dataclasses.Field[Any]", hint: Any, option: Callable[..., Any], group: str, default: Any
) -> inspect.Parameter:
    name = "--" + field.name.replace("_", "-")
    choices = field.metadata["choices"]
    if hint is bool:
        names: tuple[str, ...] = (f"{name}/--no-{name[2:]}",)
        kind: Any = bool | None
        shape: dict[str, Any] = {}
    else:
        names = (name,)
        kind = str | None
        many = typing.get_origin(hint) is tuple
        item = typing.get_args(hint)[0] if many else hint
        metavar = _metavar(name, choices) or _METAVARS[item]
        shape = {"metavar": f"{metavar},…" if many and not choices else metavar}
    annotated = typing.Annotated[kind, option(*names, help=_help(field, default), rich_help_panel=group, **shape)]
    return inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotated)


def _metavar(name: str, choices: tuple[str, ...]) -> str:
    """The choices, or where a line of 80 columns cannot hold them after the option the last word of its name."""
    spelt = "|".join(choices)
    return spelt if len(f"  {name} {spelt}") <= _COLUMNS else name.rpartition("-")[2].upper()


def _help(field: "dataclasses.Field[Any]", default: Any) -> str:
    text: str = field.metadata["help"]
    choices: tuple[str, ...] = field.metadata["choices"]
    if choices and _metavar("--" + field.name.replace("_", "-"), choices) != "|".join(choices):
        text = f"{text.removesuffix('.')}: {', '.join(choices)}."
    return text if "[default: " in text or default == "" else f"{text} [default: {_spelt(default)}]"


def _spelt(default: Any) -> str:
    """A default as it is typed; of a switch whether it is on."""
    if isinstance(default, bool):
        return "on" if default else "off"
    if isinstance(default, tuple):
        return ",".join(map(_spelt, default))
    return f"{default:g}" if isinstance(default, float) else str(default)


def given(arguments: dict[str, Any]) -> dict[str, Any]:
    """The settings that were given on the command line, in the order of RunSpec: a sweep's runs are named in it."""
    names = [f.name for f in dataclasses.fields(RunSpec)]
    return {name: arguments[name] for name in names if arguments.get(name) is not None}
