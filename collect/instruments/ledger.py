"""What a run's memory is for: the storages of parameters, gradients, optimizer state, inputs and saved activations.

The ledger writes down address and time of each; `lorabench analyze` finds the allocation that had the address then. It
holds no tensor, so nothing lives longer because of it. It looks from outside: hooks of torch on parameters, optimizers
and modules, and autograd's own for what a forward saves.
"""

import csv
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ...vocabulary import (
    ADAPTER_PARTS,
    MEMORY_ACTIVATION,
    MEMORY_ADAPTER,
    MEMORY_GRADIENT,
    MEMORY_INPUT,
    MEMORY_OPTIMIZER,
    MEMORY_PARAMETER,
)

COLUMNS = ("time_ns", "device", "address", "bytes", "category", "name", "adapter", "is_before")
_OF_ALL = "all adapters"
_ADAPTER = re.compile(rf"\.(?:{ADAPTER_PARTS})\.([^.]+)(?:\.|$)")


class Ledger:
    """Watches a model and its optimizers while it is open; then write() leaves what it saw."""

    def __init__(
        self,
        modules: list[nn.Module],
        optimizers: list[torch.optim.Optimizer],
        with_saved: bool = True,
        shared: Sequence[tuple[str, torch.Tensor]] = (),
        with_inputs: bool = True,
        is_begun: bool = False,
    ):
        """`modules` are the model and whatever else takes inputs (the loss); parameters are those of the first.

        `shared` are tensors that many parameters, or their gradients, are views of, each with its category.

        `with_saved` is for autograd's hooks on what a forward saves, which a compiled graph would be made again for,
        `with_inputs` for those of modules. `is_begun` says that the allocations of what is there were recorded.
        """
        self._modules, self._optimizers, self._with_saved = modules, optimizers, with_saved
        self._shared, self._with_inputs, self._is_begun = shared, with_inputs, is_begun
        self._rows: list[tuple[Any, ...]] = []
        self._names: dict[int, str] = {}
        self._owned: set[int] = set()  # addresses that no activation can have: they live as long as the run
        self._open = ExitStack()

    def __enter__(self) -> "Ledger":
        self._take_stock()
        for parameter in self._modules[0].parameters():
            if parameter.requires_grad:
                self._keep(parameter.register_post_accumulate_grad_hook(self._saw_gradient))
        for optimizer in self._optimizers:
            self._keep(optimizer.register_step_post_hook(self._saw_step))
        for module in self._modules if self._with_inputs else ():
            self._keep(module.register_forward_pre_hook(self._saw_inputs, with_kwargs=True))
        if self._with_saved:
            self._open.enter_context(torch.autograd.graph.saved_tensors_hooks(self._saw_saved, lambda tensor: tensor))
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def let_go(self) -> None:
        """Hold no model and no optimizer any more; hooks go on."""
        self._modules, self._optimizers, self._shared = [], [], ()

    def add(self, other: "Ledger") -> None:
        """Take the rows of another one, too."""
        self._rows += other._rows

    def write(self, path: Path) -> None:
        """The rows as CSV; times are nanoseconds of the Unix epoch."""
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(COLUMNS)
            writer.writerows(self._rows)

    def _keep(self, handle: Any) -> None:
        self._open.callback(handle.remove)

    def _add(self, category: str, tensor: torch.Tensor, name: str = "", is_before: bool = False) -> int:
        """Write a tensor's storage down; its address, 0 for one without memory."""
        address = _address(tensor)
        if address:
            storage = _here(tensor).untyped_storage()
            found = _ADAPTER.search(name)
            adapter = found[1] if found else ""
            self._rows.append(
                (
                    time.time_ns(),
                    _device(tensor),
                    address,
                    storage.nbytes(),
                    category,
                    name,
                    adapter,
                    int(is_before and not self._is_begun),
                )
            )
        return address

    def _take_stock(self) -> None:
        """What is there before the first step: weights, constants of quantized ones, gradients, optimizer state."""
        model = self._modules[0]
        for category, tensor in self._shared:
            self._own(category, tensor, _OF_ALL)
        for name, tensor in (*model.named_parameters(), *model.named_buffers()):
            self._names[id(tensor)] = name
            kind = MEMORY_ADAPTER if _ADAPTER.search(name) else MEMORY_PARAMETER
            for part in (*_plain(tensor), *_constants(tensor)):
                self._own(kind, part, name)
            if tensor.grad is not None and _address(tensor.grad) not in self._owned:
                self._add(MEMORY_GRADIENT, tensor.grad, name, is_before=True)
        for name, module in model.named_modules():
            for part in _constants(getattr(module, "state", None)):
                self._own(MEMORY_PARAMETER, part, name)
        for optimizer in self._optimizers:
            for name, tensor in self._states(optimizer):
                self._own(MEMORY_OPTIMIZER, tensor, name)

    def _own(self, category: str, tensor: torch.Tensor, name: str) -> None:
        if _address(tensor) not in self._owned:
            self._owned.add(self._add(category, tensor, name, is_before=True))

    def _states(self, optimizer: torch.optim.Optimizer) -> Iterator[tuple[str, torch.Tensor]]:
        for parameter, state in optimizer.state.items():
            for value in state.values():
                if isinstance(value, torch.Tensor):
                    yield self._names.get(id(parameter), ""), value

    def _saw_gradient(self, parameter: torch.Tensor) -> None:
        if parameter.grad is not None:
            self._add(MEMORY_GRADIENT, parameter.grad, self._names[id(parameter)])

    def _saw_step(self, optimizer: torch.optim.Optimizer, *_: object) -> None:
        for name, tensor in self._states(optimizer):
            if _address(tensor) not in self._owned:
                self._owned.add(self._add(MEMORY_OPTIMIZER, tensor, name))

    def _saw_inputs(self, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        for name, value in (*(("", value) for value in args), *kwargs.items()):
            if isinstance(value, torch.Tensor) and value.grad_fn is None:
                self._add(MEMORY_INPUT, value, name)

    def _saw_saved(self, tensor: torch.Tensor) -> torch.Tensor:
        """Returns an alias, because the tensor itself would keep its own node alive."""
        for part in _plain(tensor):
            if _address(part) not in self._owned:
                self._add(MEMORY_ACTIVATION, part)
        return tensor.detach()


def _plain(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """The tensors with memory in one: those of torchao and quanto are made of others."""
    own = _here(tensor)
    if not hasattr(own, "__tensor_flatten__"):
        yield own
        return
    for name in own.__tensor_flatten__()[0]:
        yield from _plain(getattr(own, name))


def _here(tensor: torch.Tensor) -> torch.Tensor:
    """Of a tensor that is cut over ranks the part that this one has."""
    part: torch.Tensor = getattr(tensor, "_local_tensor", tensor)
    return part


def _address(tensor: torch.Tensor) -> int:
    return _here(tensor).untyped_storage().data_ptr()


def _device(tensor: torch.Tensor) -> str:
    """As traces name it: cpu, cuda:0."""
    return "cpu" if tensor.device.type == "cpu" else f"cuda:{tensor.device.index or 0}"


def _constants(holder: Any) -> Iterator[torch.Tensor]:
    """Tensors that a quantized weight needs besides itself: bitsandbytes keeps them in objects of its own."""
    places: list[Any] = [
        getattr(holder, "quant_state", None),
        getattr(holder, "CB", None),
        getattr(holder, "SCB", None),
    ]
    if holder is not None and not isinstance(holder, torch.Tensor):
        places.append(holder)
    seen: set[int] = set()
    while places:
        place = places.pop()
        if isinstance(place, torch.Tensor):
            yield place
        elif place is not None and id(place) not in seen and type(place).__module__.startswith("bitsandbytes"):
            seen.add(id(place))
            places.extend(vars(place).values())
