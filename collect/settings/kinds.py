"""The kinds of adapters that a run can train, and which settings each goes with. Loads no PEFT.

A kind's parameters and its training are in workload/kinds.py; here is what can be said before anything is loaded.
"""

from dataclasses import dataclass
from typing import Any

from ...errors import UsageError

_BITSANDBYTES = ("int8", "nf4")
_TORCHAO = ("int8wo", "float8wo")
_QUANTO = ("qint8",)
_GPTQ = ("gptq", "gptq-triton")  # not tried: LoRA alone

ADAMW = ("adamw", "adamw-fused", "adamw-foreach")  # torch's, with the state in the weights' type


@dataclass(frozen=True)
class Kind:
    """One kind: what of a LoRA's settings it has not, and what it cannot be combined with, and why."""

    unused: tuple[str, ...] = ()  # settings that would change nothing
    batches: bool = False  # BatchLoRA trains it
    shares_base: bool = True  # several of them can be on one base
    why_alone: str = ""
    quants: tuple[str, ...] = (*_BITSANDBYTES, *_TORCHAO, *_QUANTO)  # of the base that it can be put on
    optimizers: tuple[str, ...] = (*ADAMW, "adamw-8bit", "adafactor", "sgd")


_TAKEN = "starts from a part that it takes out of the base's weights"
_WEIGHT = ()  # kinds that compute with the base's weight matrix itself
KINDS = {
    "lora": Kind(batches=True, quants=(*_BITSANDBYTES, *_TORCHAO, *_QUANTO, *_GPTQ)),
    "rslora": Kind(batches=True),
    "lora-plus": Kind(batches=True),
    "lora-fa": Kind(optimizers=("adamw",)),
    "dora": Kind(quants=("nf4", *_TORCHAO, *_QUANTO)),  # PEFT 0.21 loses int8's scales before DoRA's first norm
    "pissa": Kind(batches=True, shares_base=False, why_alone=_TAKEN, quants=_WEIGHT),
    "olora": Kind(batches=True, shares_base=False, why_alone=_TAKEN, quants=_WEIGHT),
    "adalora": Kind(
        shares_base=False,
        why_alone="gives ranks to one adapter's layers at a time (PEFT trains one)",
        quants=(*_BITSANDBYTES, *_TORCHAO),  # it adds to quanto's output in place, which autograd refuses
    ),
    # torchao's weights lack what PEFT wants for merging these
    "vera": Kind(unused=("alpha",), quants=(*_BITSANDBYTES, *_QUANTO)),
    "ia3": Kind(unused=("rank", "alpha", "dropout")),
    "oft": Kind(unused=("alpha", "dropout"), quants=(*_BITSANDBYTES, *_QUANTO)),
    "loha": Kind(unused=("dropout",), quants=_WEIGHT),
    "lokr": Kind(unused=("dropout",), quants=_WEIGHT),
}


_DEFAULTS = ("rank", "alpha", "dropout", "lora_plus_ratio", "weight_decay")


def check(spec: Any) -> None:
    """Raise UsageError for a kind beside settings that it has not, or that it cannot be combined with."""
    kind, name = KINDS[spec.adapter_kind], f"--adapter-kind {spec.adapter_kind}"
    defaults = {f: type(spec).__dataclass_fields__[f].default for f in _DEFAULTS}
    for setting in kind.unused:
        if getattr(spec, setting) != defaults[setting]:
            raise UsageError(f"--{setting} would change nothing: {name} has none; leave it out")
    if spec.adapter_kind != "lora-plus" and spec.lora_plus_ratio != defaults["lora_plus_ratio"]:
        raise UsageError("--lora-plus-ratio is a setting of --adapter-kind lora-plus")
    if spec.lora_plus_ratio < 1:
        raise UsageError("--lora-plus-ratio is how many times faster B learns than A: at least 1")
    if spec.peft_mode == "batch" and not kind.batches:
        usable = ", ".join(other for other, k in KINDS.items() if k.batches and k.shares_base)
        raise UsageError(f"--peft-mode batch cannot train {name} in one pass; it can {usable}; use switch or process")
    is_shared = spec.lora_cnt > 1 and spec.peft_mode != "process"
    if is_shared and not kind.shares_base:
        raise UsageError(f"{name} {kind.why_alone}: one adapter for each base; use --peft-mode process")
    if is_shared and spec.adapter_kind == "vera" and len(set(spec.rank)) > 1:
        raise UsageError(f"{name}: all adapters on a base share its random A and B, so --rank is one for all")
    if spec.quantisation != "none" and spec.quantisation not in kind.quants:
        usable = ", ".join(("none", *kind.quants))
        raise UsageError(f"{name} cannot be put on a base of --quant {spec.quantisation}; it goes with {usable}")
    if spec.optimizer not in kind.optimizers:
        raise UsageError(f"{name} has an AdamW of its own, so --optimizer {spec.optimizer} does not apply")
    if spec.adapter_kind == "lora-fa" and spec.weight_decay != defaults["weight_decay"]:
        raise UsageError(f"{name} has an AdamW of its own, which takes no --weight-decay; leave it out")
