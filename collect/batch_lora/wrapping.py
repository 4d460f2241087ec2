"""BatchLoRA: many LoRA adapters trained in one pass over their frozen base.

A union batch holds the rows of all adapters, one adapter after another. The base layer sees all of them at once; the
deltas of each adapter's rows come from its own A and B. PEFT's layers stay what they are (names, weights, saving and
loading): wrapping changes their class to one that adds a forward for union batches, as FSDP2 does with its modules.

The operators (operators.py) are mLoRA's loop, with and without graph pruning, and a fused one whose number of matrix
products does not depend on the number of adapters. https://arxiv.org/abs/2312.02515 describes the first.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from ...errors import UsageError
from . import dropout
from .layers import layer_key, lora_layers
from .operators import fused, fused_onto, looped, pruned
from .plan import Plan, Slice
from .stacked import Stack, StackedLayer

OPERATORS = ("fused", "loop")
_KNOWN_MASKS = 256
_QUANTISED = ("Linear4bit", "Linear8bitLt", "GPTQLoraLinear")  # PEFT's classes, which no other one is a base of


@dataclass
class _Shared:
    """What all layers of one model know of the batch that is in flight."""

    clock: dropout.Clock
    operator: str
    is_pruned: bool
    names: tuple[str, ...] = ()
    rows: tuple[int, ...] = ()
    keys: torch.Tensor | None = None  # of each row, for dropout
    masks: dict[Any, Any] = field(default_factory=dict)  # what a Plan works out for its slices
    stack: Stack | None = None
    is_recorded: bool = False  # kernels that are replayed read the masks


class _Batched:
    """Mixed into PEFT's LoRA layer classes."""

    _shared: _Shared
    _key: int
    _stacked: StackedLayer | None = None

    def forward(self, x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        """The layer's output: as PEFT's where no union batch is in flight."""
        shared: _Shared = self._shared
        if not shared.rows:
            plain: torch.Tensor = super().forward(x, *args, **kwargs)  # type: ignore[misc]
            return plain
        layer: Any = self
        if layer.disable_adapters:
            raise UsageError("BatchLoRA trains its adapters: leave disable_adapter() before union()")
        if len(x) != sum(shared.rows):
            raise UsageError(f"the batch has {len(x)} rows, and union() was given {sum(shared.rows)}")
        base: torch.Tensor = layer.base_layer(x, *args, **kwargs)
        plan = self._plan(layer, shared, x)
        if not plan.slices:
            return base
        if self._stacked is not None:
            return fused_onto(base, x, plan, self._stacked)
        weights = [w for s in plan.slices for w in (layer.lora_A[s.name].weight, layer.lora_B[s.name].weight)]
        x = x.to(arithmetic_dtype(x, weights[0]))
        if shared.operator == "fused":
            delta = fused(x, plan, weights)
        else:
            delta = (pruned if shared.is_pruned else looped)(x, plan, weights)
        result = base + delta
        return result.to(base.dtype)

    def _plan(self, layer: Any, shared: _Shared, x: torch.Tensor) -> Plan:
        slices, start = [], 0
        for name, count in zip(shared.names, shared.rows, strict=True):
            if name in layer.lora_A and count:
                drop = layer.lora_dropout[name]
                rate = getattr(drop, "p", 0.0) if layer.training else 0.0  # Identity has none
                slices.append(Slice(name, start, start + count, layer.r[name], float(layer.scaling[name]), rate))
            start += count
        return Plan(tuple(slices), start, layer.out_features, shared.keys, self._key, shared.masks)


def arithmetic_dtype(x: torch.Tensor, weight: torch.Tensor) -> torch.dtype:
    """The type in which weights are multiplied: their own, or under autocast that of autocast."""
    kind = x.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else weight.dtype


class BatchLora(nn.Module):
    """A PEFT model that can train many of its adapters in one pass.

    peft_model: a PeftModel whose adapters are LoRA on linear layers (plain, nf4 or int8). operator: "fused" or "loop".
    pruned: for the loop, one autograd node for all adapters of a layer that writes the gradient of each slice into one
    buffer, instead of autograd's own split and concatenation. clock: which micro step each adapter is in, for
    dropout that an adapter would see alone, too (dropout.py). All adapters' weights get gradients from now on; which of
    them are active outside of union() stays as it is.

    Raises UsageError for adapters that are no plain LoRA on linear layers.
    """

    def __init__(
        self, peft_model: Any, operator: str = "fused", pruned: bool = True, clock: dropout.Clock | None = None
    ):
        super().__init__()
        if operator not in OPERATORS:
            raise UsageError(f"the operator is {operator!r}; it must be one of {', '.join(OPERATORS)}")
        self.peft_model = peft_model
        self.clock = clock or dropout.Clock()
        self._shared = _Shared(self.clock, operator, pruned)
        names = list(peft_model.peft_config)
        for name, config in peft_model.peft_config.items():
            _refuse_kinds(name, config)
        layers = lora_layers(peft_model)
        if not layers:
            raise UsageError("the model has no LoRA layers for BatchLoRA to train")
        kinds = {}
        for name, layer in layers.items():  # all before any is changed
            _refuse_variants(name, layer)
            kinds[name] = _batched_class(type(layer))
        for name, layer in layers.items():
            for adapter in names:  # set_adapter() would have forwards outside of union() add up all adapters
                if adapter in layer.lora_A:
                    layer.lora_A[adapter].requires_grad_(True)
                    layer.lora_B[adapter].requires_grad_(True)
            layer.__class__ = kinds[name]
            layer._shared, layer._key = self._shared, layer_key(name)

    def stack(self, dtype: torch.dtype) -> Stack:
        """Put the weights of all adapters into one tensor, to be multiplied in a type; PEFT's become views of it.

        Gradients appear in the tensor beside it: they are added up until forget_gradients(). Raises UsageError for
        adapters of different layers.
        """
        layers = lora_layers(self.peft_model)
        stack = Stack(layers, list(self.peft_model.peft_config), dtype)
        for name, layer in layers.items():
            layer._stacked = stack.layer(name)
        self._shared.stack = stack
        return stack

    @contextmanager
    def union(self, names: Sequence[str], rows: Sequence[int], device: torch.device) -> Iterator[None]:
        """Inside, forwards take union batches: so many rows of each named adapter, one adapter after another.

        The backward belongs inside, too: checkpointing runs forwards in it. Begins a micro step of each adapter that
        has rows. Raises UsageError for an adapter that the model does not have.
        """
        shared = self._shared
        if shared.rows:
            raise UsageError("union() was entered inside of another union(): one batch at a time")
        unknown = [name for name in names if name not in self.peft_model.peft_config]
        if unknown:
            raise UsageError(f"no adapter {unknown[0]!r}; the model has {', '.join(self.peft_model.peft_config)}")
        if len(set(names)) < len(names) or len(names) != len(rows):
            raise UsageError(f"union() takes each adapter once, and its rows: {len(names)} names, {len(rows)} numbers")
        for name, count in zip(names, rows, strict=True):
            if count:
                self.clock.advance(name)
        shared.names, shared.rows = tuple(names), tuple(rows)
        shared.keys = self.clock.row_keys(names, rows, device)
        if len(shared.masks) > _KNOWN_MASKS and not shared.is_recorded:
            shared.masks.clear()
        if shared.stack is not None:
            shared.stack.begin()
        try:
            yield
        finally:
            shared.names, shared.rows, shared.keys = (), (), None

    def keep_masks(self) -> None:
        """Keep all that is worked out for batches from now on: recorded kernels read it."""
        self._shared.is_recorded = True

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The model's output for a union batch, inside union()."""
        return self.peft_model(*args, **kwargs)

    def save_pretrained(self, folder: str, **options: Any) -> None:
        """Save the adapters as PEFT does: a folder for each, which PeftModel.from_pretrained loads."""
        if self._shared.stack is not None:  # files hold no views
            weights = self.peft_model.state_dict()
            options.setdefault("state_dict", {n: t.clone() if ".lora_" in n else t for n, t in weights.items()})
        self.peft_model.save_pretrained(folder, **options)


_classes: dict[type, type] = {}


def _batched_class(kind: type) -> type:
    """A subclass of a PEFT layer's class with the forward for union batches in front."""
    if issubclass(kind, _Batched):
        raise UsageError("the model is wrapped for BatchLoRA already")
    if kind not in _classes:
        _classes[kind] = type(f"Batch{kind.__name__}", (_Batched, kind), {})
    return _classes[kind]


def _refuse_kinds(name: str, config: Any) -> None:
    """What an adapter has besides its layers would be shared by all, or trained by none."""
    kind = getattr(config.peft_type, "value", config.peft_type)
    if kind != "LORA":
        raise UsageError(f"BatchLoRA trains LoRA; adapter {name} is {kind}")
    if config.modules_to_save:
        raise UsageError(
            f"BatchLoRA trains LoRA alone; adapter {name} has modules_to_save ({', '.join(config.modules_to_save)}), "
            "of which a batch can use one adapter's only"
        )
    if config.bias != "none":
        raise UsageError(f"BatchLoRA trains LoRA alone; adapter {name} has bias={config.bias!r}, which all would share")
    if getattr(config, "trainable_token_indices", None):
        raise UsageError(f"BatchLoRA trains LoRA alone; adapter {name} has trainable_token_indices")


def _refuse_variants(name: str, layer: Any) -> None:
    """Anything that is more than B·A·x on a linear layer would be trained wrongly without a word."""
    from peft.tuners.lora import Linear

    is_linear = isinstance(layer, Linear) or type(layer).__name__ in _QUANTISED
    if not is_linear:
        raise UsageError(f"BatchLoRA trains LoRA on linear layers; {name} is a {type(layer).__name__}")
    if getattr(layer, "lora_variant", None):
        kinds = sorted({type(variant).__name__ for variant in layer.lora_variant.values()})
        raise UsageError(f"BatchLoRA trains plain LoRA; {name} has {', '.join(kinds)}")
    if any(getattr(layer, "lora_bias", {}).values()):
        raise UsageError(f"BatchLoRA trains LoRA without a bias; {name} has lora_bias")
    if layer.merged:
        raise UsageError(f"{name} has merged adapters; call unmerge_adapter() first")


def losses(logits: torch.Tensor, labels: torch.Tensor, rows: Sequence[int], ignored: int = -100) -> torch.Tensor:
    """The mean next-token loss of each adapter over its own labels that are not ignored: a [adapters] float tensor.

    logits is [rows, length, words], labels [rows, length]. Padding and the other adapters' rows do not enter; an
    adapter without labels has the loss 0.
    """
    width = logits.shape[-1]
    each = F.cross_entropy(
        logits[:, :-1].reshape(-1, width).float(), labels[:, 1:].reshape(-1), ignore_index=ignored, reduction="none"
    ).view(len(labels), -1)
    return mean_by_adapter(each, labels, rows, ignored)


@lru_cache(maxsize=_KNOWN_MASKS)
def _owner(rows: tuple[int, ...], device: torch.device) -> torch.Tensor:
    """The number of each row's adapter, on the device: copying it anew would make the CPU wait in every step."""
    return dropout.on(device, torch.repeat_interleave(torch.arange(len(rows)), torch.tensor(rows)))


def mean_by_adapter(each: torch.Tensor, labels: torch.Tensor, rows: Sequence[int], ignored: int = -100) -> torch.Tensor:
    """The mean of each adapter's losses: `each` is [rows, length - 1], 0 where the next label is ignored."""
    owner = _owner(tuple(rows), each.device)
    count = (labels[:, 1:] != ignored).sum(1)
    zero = torch.zeros(len(rows), device=each.device)
    total = zero.index_add(0, owner, each.sum(1))
    return total / zero.index_add(0, owner, count.float()).clamp(min=1)
