"""What can be changed of a run: each a change of its settings, with what it is predicted by and what it alters.

A change is predicted by replaying the run's trace with `predicted_by` (as `lorabench what-if --change` takes it), or is
bounded by `bounded_by`, which saves at least as much; where there is neither nobody knows before it was measured.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...errors import UsageError
from ..settings import kinds, parallelism
from ..settings.presets import PRESETS
from ..settings.spec import RunSpec
from . import loading

TIME, MEMORY, ADAPTERS = "time", "memory", "adapters"
GOALS = (TIME, MEMORY, ADAPTERS)
_SPACE = (MEMORY, ADAPTERS)

Settings = dict[str, Any]


@dataclass(frozen=True)
class Setting:
    """What a run is, as far as changes ask: its settings, the type of its weights, whether it has a GPU."""

    spec: RunSpec
    dtype: str
    has_gpu: bool

    @property
    def are_alike(self) -> bool:
        """Whether all sequences have the same length, so that any grouping of them has the same mean loss."""
        return self.spec.data == "synthetic" and self.spec.lengths == "fixed" and not self.spec.batch


@dataclass(frozen=True)
class Candidate:
    """A change that is possible in a run."""

    name: str
    settings: Settings  # what differs
    predicted_by: str = ""
    bounded_by: str = ""
    alters: str = ""  # what of the training it alters; empty for what computes the same
    memory: str = ""  # the rule of memory_model.py that says what becomes of the peak
    is_loading: bool = False  # how many workers are needed, and what they save, follows from the prediction


@dataclass(frozen=True)
class _Kind:
    """A kind of change: its goals, and the settings that it changes in a run, None where it does not apply."""

    name: str
    goals: tuple[str, ...]
    settings: Callable[[Setting], Settings | None]
    predicted_by: Callable[[Setting], str] = lambda run: ""
    bounded_by: Callable[[Setting], str] = lambda run: ""
    alters: Callable[[Setting], str] = lambda run: ""
    memory: str = ""
    is_loading: bool = False


def possible(run: Setting, goal: str) -> list[Candidate]:
    """The changes that apply to a run, in the order of the table."""
    found = []
    for kind in _KINDS:
        settings = kind.settings(run) if goal in kind.goals else None
        if settings is not None:
            settings = {name: value for name, value in settings.items() if getattr(run.spec, name) != value}
            found.append(
                Candidate(
                    kind.name,
                    settings,
                    kind.predicted_by(run),
                    kind.bounded_by(run),
                    kind.alters(run),
                    kind.memory,
                    kind.is_loading,
                )
            )
    return found


def _when(condition: bool, **settings: Any) -> Settings | None:
    return settings if condition else None


def _batch(run: Setting) -> Settings | None:
    spec = run.spec
    return _when(spec.lora_cnt > 1 and spec.peft_mode != "batch" and kinds.KINDS[spec.adapter_kind].batches,
                 peft_mode="batch")  # fmt: skip


def _together(run: Setting) -> str:
    return f"batch={run.spec.lora_cnt}" if run.spec.peft_mode in ("switch", "seq") else ""


def _one_micro_step(run: Setting) -> Settings | None:
    spec = run.spec
    if min(spec.grad_accum) == 1 or len(set(spec.grad_accum)) > 1 or spec.batch:
        return None
    return {"batch_size": tuple(rows * spec.grad_accum[0] for rows in spec.batch_size), "grad_accum": (1,)}


def _halved(run: Setting) -> Settings | None:
    spec = run.spec
    if any(rows % 2 for rows in spec.batch_size) or spec.batch:
        return None
    return {
        "batch_size": tuple(rows // 2 for rows in spec.batch_size),
        "grad_accum": tuple(2 * count for count in spec.grad_accum),
    }


def _regrouped(run: Setting) -> str:
    """What other micro batches alter: tokens of a step weigh the same in however many pieces it is computed."""
    return "dropout's masks" if any(run.spec.dropout) and run.spec.has_adapters else ""


def _workers(run: Setting) -> Settings | None:
    """One more worker; how many are needed says the recording."""
    spec = run.spec
    return _when(spec.loader_workers < loading.MOST and not spec.batch, loader_workers=spec.loader_workers + 1)


def _can_fuse(spec: RunSpec) -> bool:
    takes = "adamw-fused" in kinds.KINDS[spec.adapter_kind].optimizers and spec.parallel == parallelism.NONE
    return takes and spec.optimizer in kinds.ADAMW and spec.optimizer != "adamw-fused"


def compiled(has_gpu: bool) -> str:
    """What bounds compiling: the CPU's time; without a GPU all but products and attention, which nothing fuses away."""
    return "cpu=*:0" if has_gpu else "fuse={forward} fuse={backward} scale=^aten::(?!.*(mm|conv|attention)):0"


def _is_causal(spec: RunSpec) -> bool:
    preset = PRESETS.get(spec.model)
    return spec.task == "auto" and (preset is None or preset.task == "causal")


def _on_gpu(run: Setting, **settings: Any) -> Settings | None:
    """Settings that are for a GPU, where RunSpec lets them go with the others."""
    try:
        dataclasses.replace(run.spec, **settings)
    except UsageError:
        return None
    return _when(run.has_gpu and any(getattr(run.spec, name) != value for name, value in settings.items()), **settings)


_KINDS = (
    _Kind("batch", (TIME,), _batch, _together),
    _Kind(
        "checkpointing none", (TIME,),
        lambda run: _when(run.spec.gradient_checkpointing != "none", gradient_checkpointing="none", reentrant=False),
        lambda run: "" if run.spec.is_compiled or run.spec.reentrant else "skip=recompute", memory="keep_all",
    ),
    _Kind(
        "one micro step", (TIME,), _one_micro_step, lambda run: f"merge={run.spec.grad_accum[0]}", alters=_regrouped,
        memory="more_rows",
    ),
    _Kind(
        "compile", (TIME,),
        lambda run: _when(run.spec.compile == "eager" and run.spec.quantisation == "none", compile="inductor"),
        bounded_by=lambda run: compiled(run.has_gpu),
    ),
    _Kind(
        "fused optimizer", (TIME,),
        lambda run: _when(_can_fuse(run.spec), optimizer="adamw-fused"),
        bounded_by=lambda run: "skip=optimizer",
    ),
    _Kind(
        "CUDA graph", (TIME,), lambda run: _on_gpu(run, cuda_graph=True),
        lambda run: "graph={forward} graph={backward}",
    ),
    _Kind(
        "compiled parts", (TIME,),
        lambda run: _on_gpu(run, compile="parts") if run.spec.compile == "eager" and _is_causal(run.spec) else None,
        bounded_by=lambda run: compiled(run.has_gpu),
    ),
    _Kind(
        "stacked adapters", (TIME,),
        lambda run: _on_gpu(run, adapter_storage="stacked") if run.spec.lora_cnt > 1 else None,
    ),
    _Kind("loader workers", (TIME,), _workers, lambda run: "prefetch={data}", is_loading=True),
    _Kind(
        "pinned memory", (TIME,), lambda run: _when(run.has_gpu and not run.spec.pin_memory, pin_memory=True),
        lambda run: "pin=*",
    ),
    _Kind(
        "sdpa attention", (TIME, *_SPACE),
        lambda run: _when(run.spec.attention == "eager", attention="sdpa"),
    ),
    _Kind(
        "loop over adapters", (TIME,),
        lambda run: _when(run.spec.peft_mode == "batch" and run.spec.batch_operator == "fused", batch_operator="loop"),
    ),
    _Kind(
        "fused adapters", (TIME,),
        lambda run: _when(run.spec.batch_operator == "loop", batch_operator="fused", graph_pruning=True),
    ),
    _Kind(
        "packing", (TIME,),
        lambda run: _when(not run.spec.packing and not run.are_alike and _is_causal(run.spec) and not run.spec.batch,
                          packing=True),
        alters=lambda run: "which sequences are in a step",
    ),
    _Kind(
        "bfloat16", GOALS, lambda run: _when(run.dtype == "float32", dtype="bfloat16"),
        alters=lambda run: "the type of weights and activations", memory="half_base",
    ),
    _Kind(
        "autocast", (TIME,),
        lambda run: _when(run.dtype == "bfloat16" and run.spec.adapter_dtype == "float32" and run.spec.has_adapters
                          and run.spec.autocast == "none", autocast="bfloat16"),
        alters=lambda run: "the type in which adapters are multiplied; their weights stay float32",
    ),
    _Kind(
        "adapters in the base's type", GOALS,
        lambda run: _when(run.dtype == "bfloat16" and run.spec.adapter_dtype == "float32" and run.spec.has_adapters,
                          adapter_dtype="base"),
        alters=lambda run: "the type of the adapters, which then have no float32 masters", memory="half_adapters",
    ),
    _Kind(
        "checkpointing layer", _SPACE,
        lambda run: _when(run.spec.gradient_checkpointing != "layer", gradient_checkpointing="layer"),
        memory="keep_inputs",
    ),
    _Kind(
        "checkpointing attn-mlp", _SPACE,
        lambda run: _when(run.spec.gradient_checkpointing == "none" and _is_causal(run.spec),
                          gradient_checkpointing="attn-mlp"),
    ),
    _Kind(
        "chunked loss", _SPACE, lambda run: _when(run.spec.loss == "full" and _is_causal(run.spec), loss="chunked"),
        memory="chunked_loss",
    ),
    _Kind("half rows, twice as often", _SPACE, _halved, alters=_regrouped, memory="fewer_rows"),
    _Kind(
        "8-bit AdamW", _SPACE,
        lambda run: _when(run.spec.optimizer in kinds.ADAMW, optimizer="adamw-8bit"),
        alters=lambda run: "the optimizer's state, kept in 8 bits", memory="quarter_state",
    ),
    _Kind(
        "nf4 base", _SPACE,
        lambda run: _when(run.spec.method == "lora" and run.spec.quantisation == "none", method="qlora"),
        alters=lambda run: "the base, kept in 4 bits", memory="nf4_base",
    ),
)  # fmt: skip
