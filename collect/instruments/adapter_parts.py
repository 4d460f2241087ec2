"""Which part of a PEFT layer is at work: its base, lora_A and lora_B, DoRA's magnitudes, VeRA's vectors, and so on.

Parts that are modules have hooks like any module. Most kinds other than LoRA keep their weights in dictionaries and
compute with them in the layer's own forward: there a part begins with the first operator that takes its weights and
ends with the next part. A part is called as PEFT calls its weights, the two factors of one matrix (hada_w1_a and
hada_w1_b) as the matrix. So it is with layers of other packages that hold lora_A and lora_B themselves: their base is
the one module in them that has weights, or the layer's own weight. No two parts of a layer are open at once, so what
they cost adds up.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from ...vocabulary import ADAPTER_PARTS

Names = tuple[str, ...]
_PART = re.compile(ADAPTER_PARTS)
_FACTOR = re.compile(r"(_w\d)_[ab]$")  # of a matrix that is made of two


def is_part(name: str) -> bool:
    """Whether PEFT calls weights of an adapter so."""
    return _PART.fullmatch(name) is not None


def is_adapted(module: nn.Module) -> bool:
    """Whether a module is a PEFT layer around a layer of the model, or holds weights of LoRA itself."""
    is_peft = hasattr(module, "base_layer") and bool(getattr(module, "adapter_layer_names", ()))
    return is_peft or holds_lora(module)


def holds_lora(module: nn.Module) -> bool:
    """Whether lora_A and lora_B are parameters of a layer itself, as in litgpt and loralib."""
    own = module._parameters
    return own.get("lora_A") is not None and own.get("lora_B") is not None


def named_bases(layers: Iterable[nn.Module]) -> Iterator[tuple[nn.Module, nn.Module]]:
    """Those of the layers that hold LoRA's weights themselves, and the module in each that computes its base."""
    for layer in filter(holds_lora, layers):
        if (base := _base_of(layer)) is not None:
            yield layer, base


def _base_of(layer: nn.Module) -> nn.Module | None:
    """The one module in such a layer that has weights; None where the layer computes itself."""
    inside = [child for child in layer.children() if next(child.parameters(), None) is not None]
    return inside[0] if len(inside) == 1 else None


def has_inner_parts(layer: nn.Module) -> bool:
    """Whether a PEFT layer has parts that are no modules, or modules that call each other (DoRA)."""
    is_inline = any(True for _ in _tensors(layer))
    return is_inline or bool(len(getattr(layer, "lora_magnitude_vector", ())))


def parts_of(layer: nn.Module) -> Iterator[nn.Module]:
    """The parts of a PEFT layer that are modules: its base, and those of each adapter."""
    yield from (base for _, base in named_bases([layer]))
    for name, child in layer.named_children():
        if name == "base_layer":
            yield child
        elif is_part(name) and isinstance(child, nn.ModuleDict):
            yield from child.values()


class Visit:
    """One forward of a PEFT layer: opens the parts that are no modules, and lets no part be inside another.

    open and close are of who names ranges; close takes how many names open got.
    """

    def __init__(self, layer: nn.Module, open: Callable[[Names], None], close: Callable[[int], None]):
        self._open, self._close = open, close
        self._now: Names = ()  # the part whose range is open
        self._set_aside: list[Names] = []
        mode: Any = _Watching(self, dict(_tensors(layer)))
        self._mode = mode
        self._mode.__enter__()

    def leave(self) -> None:
        """Behind the layer's forward."""
        self.move(())
        self._mode.__exit__(None, None, None)

    def enter_module(self, names: Names) -> None:
        """Before the forward of a part that is a module: another one makes way."""
        self._set_aside.append(self._now if self._set_aside else ())
        if len(self._set_aside) == 1:
            self._mode.__exit__(None, None, None)
        self.move(names)

    def leave_module(self) -> None:
        """Behind it: goes on with the part that is a module around it, if there is one."""
        self.move(self._set_aside.pop())
        if not self._set_aside:
            self._mode.__enter__()

    def move(self, to: Names) -> None:
        """Close the open part and open another."""
        if to == self._now:
            return
        if self._now:
            self._close(len(self._now))
        self._now = to
        if to:
            self._open(to)


class _Watching(TorchFunctionMode):
    """Sees each operator of a layer's forward and which of the layer's weights it takes."""

    def __init__(self, visit: Visit, parts: dict[int, Names]):
        super().__init__()
        self._visit, self._parts = visit, parts
        self._kept: list[torch.Tensor] = []  # so that no other tensor gets the storage of one that is known

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") == "__get__":  # shape, dtype, T: nothing is computed
            return func(*args, **(kwargs or {}))
        operands = [a for a in args if isinstance(a, torch.Tensor) and a.ndim]
        found = [self._parts.get(_storage(operand)) for operand in operands]
        named = [part for part in found if part]
        if named:
            self._visit.move(named[-1])
        result = func(*args, **(kwargs or {}))
        if named and len(named) == len(operands) and isinstance(result, torch.Tensor):
            self._know(result, operands, named)
        return result

    def _know(self, result: torch.Tensor, operands: list[torch.Tensor], named: list[Names]) -> None:
        """What is made of weights alone: of the part whose shape it has, else of all of them together."""
        if len(set(named)) == 1:
            part = named[0]
        else:
            alike = [part for part, operand in zip(named, operands, strict=True) if operand.shape == result.shape]
            part = alike[0] if len(alike) == 1 else (named[0][0].split("_")[0], *named[0][1:])
        if storage := _storage(result):
            self._parts[storage] = part
            self._kept.append(result)


def _tensors(layer: nn.Module) -> Iterator[tuple[int, Names]]:
    """The storages of weights that are no modules, and the names of their part; of active adapters last."""
    if holds_lora(layer):
        for name, weight in layer.named_parameters(recurse=False):
            yield _storage(weight), (name if is_part(name) else "base",)
    active = set(getattr(layer, "active_adapters", ()))
    found = []
    for name, holder in layer.named_children():
        if is_part(name) and not isinstance(holder, nn.ModuleDict):
            for adapter, tensor in (*holder.named_parameters(recurse=False), *holder.named_buffers(recurse=False)):
                found.append((adapter in active, _storage(tensor), (_FACTOR.sub(r"\1", name), adapter)))
    for _, storage, names in sorted(found):  # VeRA's A and B are those of all its adapters
        yield storage, names


def _storage(tensor: torch.Tensor) -> int:
    """A number for the memory that a tensor and its views have in common; 0 where they have none to be seen."""
    if type(tensor) not in (torch.Tensor, nn.Parameter):
        return 0
    return int(tensor.untyped_storage()._cdata)
