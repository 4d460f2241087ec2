"""The weights of many adapters in one tensor, of which PEFT's parameters are views.

    flat, gradients   [adapters, size]     a row for each adapter: A and B of its layers, one behind the other

                      layer 0             layer 1
        adapter_0     A A A A B B B B     A A A A B B B B       A of a layer: [adapters, width, in] with steps of a row
        adapter_1     A A A A B B B B     A A A A B B B B       B of a layer: [adapters, out, width]

So what is done to all of them at once (a cast, an update, forgetting gradients) is one kernel, whatever their number.
Where ranks differ, the rows of A and columns of B above an adapter's rank are 0 and stay so: their gradients are 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from ...errors import UsageError
from ...vocabulary import MEMORY_ADAPTER, MEMORY_GRADIENT
from . import dropout


@dataclass(frozen=True)
class Place:
    """Where a layer's weights lie in a row."""

    first_a: int
    first_b: int
    width: int
    in_features: int
    out_features: int

    def a(self, rows: torch.Tensor) -> torch.Tensor:
        """[adapters, width, in]"""
        return self._view(rows, self.first_a, self.width, self.in_features)

    def b(self, rows: torch.Tensor) -> torch.Tensor:
        """[adapters, out, width]"""
        return self._view(rows, self.first_b, self.out_features, self.width)

    def _view(self, rows: torch.Tensor, first: int, height: int, width: int) -> torch.Tensor:
        shape, steps = (len(rows), height, width), (rows.stride(0), width, 1)
        return rows.as_strided(shape, steps, rows.storage_offset() + first)


class Stack:
    """The adapters of a model, stacked. names: of all its adapters; each must have every LoRA layer.

    dtype: the type in which they are multiplied. Raises UsageError where adapters have different layers or types.
    """

    def __init__(self, layers: dict[str, Any], names: Sequence[str], dtype: torch.dtype):
        self.names = tuple(names)
        self._places: dict[str, Place] = {}
        self._rows: dict[tuple[str, ...], torch.Tensor] = {}
        size = 0
        for name, layer in layers.items():
            if missing := [n for n in names if n not in layer.lora_A]:
                raise UsageError(f"{missing[0]} has no LoRA on {name}, and stacked adapters have the same layers")
            width = max(layer.r[n] for n in names)
            inputs, outputs = layer.lora_A[names[0]].weight.shape[1], layer.lora_B[names[0]].weight.shape[0]
            self._places[name] = Place(size, size + width * inputs, width, inputs, outputs)
            size += width * (inputs + outputs)
        first = next(iter(layers.values())).lora_A[names[0]].weight
        self.flat = torch.zeros(len(names), size, dtype=first.dtype, device=first.device)
        self.gradients = torch.zeros_like(self.flat)
        # what is multiplied: the weights, or a copy of another type that begin() makes
        self._multiplied = self.flat if dtype == first.dtype else torch.empty_like(self.flat, dtype=dtype)
        self.parameters: list[nn.Parameter] = []
        self._gradients: list[torch.Tensor] = []  # of each parameter, a view
        for name, layer in layers.items():
            self._take(self._places[name], layer)
        self.anchor = torch.zeros(1, device=first.device, requires_grad=True)  # has the deltas differentiated

    def _take(self, place: Place, layer: Any) -> None:
        for number, name in enumerate(self.names):
            for parameter, rows, gradient in (
                (layer.lora_A[name].weight, place.a(self.flat)[number], place.a(self.gradients)[number]),
                (layer.lora_B[name].weight, place.b(self.flat)[number], place.b(self.gradients)[number]),
            ):
                if parameter.dtype != self.flat.dtype:
                    raise UsageError("stacked adapters have weights of one type")
                own = tuple(slice(n) for n in parameter.shape)
                rows[own] = parameter.detach()
                parameter.data = rows[own]
                parameter.grad = gradient[own]
                self.parameters.append(parameter)
                self._gradients.append(parameter.grad)

    def begin(self) -> None:
        """Before a forward: weights as they are now, in the type in which they are multiplied."""
        if self._multiplied is not self.flat:
            self._multiplied.copy_(self.flat)

    def forget_gradients(self) -> None:
        """Set all gradients to 0, where they are."""
        self.gradients.zero_()

    def keep_gradients_in_place(self) -> None:
        """Where zero_grad() took an adapter's gradients away, set them to 0 and give them back.

        zero_grad() sets them to None unless told otherwise. Of an adapter the first one tells of all.
        """
        for number in range(len(self.names)):
            if self.parameters[2 * number].grad is None:
                self.gradients[number].zero_()
                for first in range(2 * number, len(self.parameters), 2 * len(self.names)):
                    for place in (first, first + 1):
                        self.parameters[place].grad = self._gradients[place]

    def storages(self) -> list[tuple[str, torch.Tensor]]:
        """The tensors that all of it lies in, and what each is for."""
        found = [(MEMORY_ADAPTER, self.flat), (MEMORY_GRADIENT, self.gradients)]
        return found if self._multiplied is self.flat else [*found, (MEMORY_ADAPTER, self._multiplied)]

    def rows(self, names: tuple[str, ...]) -> torch.Tensor | None:
        """Numbers of some adapters on the device, None for all: copied there once, since copying makes the CPU wait."""
        if names == self.names:
            return None
        if names not in self._rows:
            numbers = torch.tensor([self.names.index(name) for name in names])
            self._rows[names] = dropout.on(self.flat.device, numbers)
        return self._rows[names]

    def layer(self, name: str) -> "StackedLayer":
        """A layer's weights and gradients."""
        place = self._places[name]
        return StackedLayer(
            self, place.a(self._multiplied), place.b(self._multiplied), place.a(self.gradients), place.b(self.gradients)
        )

    def groups(self, rates: Sequence[float]) -> list[dict[str, Any]]:
        """Parameters for one optimizer: a group for each learning rate, with the rows of adapters that have it."""
        rows = [nn.Parameter(row) for row in self.flat]
        for row, gradient in zip(rows, self.gradients, strict=True):
            row.grad = gradient
        found: dict[float, list[nn.Parameter]] = {}
        for row, rate in zip(rows, rates, strict=True):
            found.setdefault(rate, []).append(row)
        return [{"params": rows, "lr": rate} for rate, rows in found.items()]


@dataclass(frozen=True)
class StackedLayer:
    """One layer of a Stack: A [adapters, width, in], B [adapters, out, width], and the places of their gradients."""

    stack: Stack
    all_a: torch.Tensor
    all_b: torch.Tensor
    gradient_a: torch.Tensor
    gradient_b: torch.Tensor

    def weights(self, names: Sequence[str]) -> tuple[torch.Tensor, torch.Tensor]:
        """A and B of some adapters."""
        chosen = self.stack.rows(tuple(names))
        return (self.all_a, self.all_b) if chosen is None else (self.all_a[chosen], self.all_b[chosen])

    def add(self, names: Sequence[str], gradient_a: torch.Tensor, gradient_b: torch.Tensor) -> None:
        """Add to the gradients of some adapters."""
        self.stack.keep_gradients_in_place()
        chosen = self.stack.rows(tuple(names))
        for place, gradient in ((self.gradient_a, gradient_a), (self.gradient_b, gradient_b)):
            if chosen is None:
                place.add_(gradient)
            else:
                place.index_add_(0, chosen, gradient.to(place.dtype))
