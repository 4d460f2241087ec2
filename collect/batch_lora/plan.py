"""Whose rows of a union batch are whose, and what a layer works out of that: scalings, masks and rates of dropout."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

from . import dropout

T = TypeVar("T")


@dataclass(frozen=True)
class Slice:
    """The rows [start, stop) of one adapter and how it acts on them."""

    name: str
    start: int
    stop: int
    rank: int
    scaling: float
    rate: float  # of dropout


@dataclass(frozen=True)
class Plan:
    """What one layer does with a union batch of `rows` rows."""

    slices: tuple[Slice, ...]
    rows: int
    out_features: int
    keys: torch.Tensor | None
    layer: int
    masks: dict[Any, Any]

    def dropped(self, x: torch.Tensor, part: Slice) -> torch.Tensor:
        """The slice's rows of x after dropout, to be differentiated."""
        own = x[part.start : part.stop]
        return dropout.dropped(own, *self.dropout_of(part.start, part.stop, x.device)) if part.rate else own

    def drop(self, tensors: Sequence[torch.Tensor], part: Slice) -> list[torch.Tensor]:
        """Tensors that have the slice's rows alone, after the same dropout."""
        if not part.rate:
            return list(tensors)
        return dropout.drop(tensors, *self.dropout_of(part.start, part.stop, tensors[0].device))

    def dropout_of(self, start: int, stop: int, device: torch.device) -> tuple[torch.Tensor, int, dropout.Rates]:
        """What dropout takes for some rows."""
        assert self.keys is not None
        return self.keys[start:stop], self.layer, self.rates(device).rows(start, stop)

    @property
    def is_even(self) -> bool:
        """Whether every row belongs to an adapter and all adapters have as many."""
        size = self.slices[0].stop - self.slices[0].start
        return size * len(self.slices) == self.rows and all(s.stop - s.start == size for s in self.slices)

    @property
    def names(self) -> tuple[str, ...]:
        """The adapters that take part."""
        return tuple(s.name for s in self.slices)

    @property
    def has_dropout(self) -> bool:
        """Whether any adapter drops anything."""
        return any(s.rate for s in self.slices)

    def rates(self, device: torch.device) -> dropout.Rates:
        """Each row's rate of dropout, 0 in rows of none."""

        def make() -> dropout.Rates:
            values = [0.0] * self.rows
            for s in self.slices:
                values[s.start : s.stop] = [s.rate] * (s.stop - s.start)
            return dropout.Rates.of(values, device)

        return self.known(("rates", self.slices, self.rows), make)

    def mask(self, width: int, like: torch.Tensor) -> torch.Tensor:
        """[rows, adapters · width]: an adapter's scaling where row and columns are its own, else 0."""

        def make() -> torch.Tensor:
            values = torch.zeros(self.rows, len(self.slices) * width, dtype=torch.float64)
            for n, s in enumerate(self.slices):
                values[s.start : s.stop, n * width : n * width + s.rank] = s.scaling
            return dropout.on(like.device, exact(values, like.dtype))

        return self.known(("mask", width, self.slices, self.rows, like.dtype), make)

    def known(self, key: Any, make: Callable[[], T]) -> T:
        """What was made before for the same key; a graph being compiled makes it inside, where it is a constant."""
        if torch.compiler.is_compiling():
            return make()
        if key not in self.masks:
            self.masks[key] = make()
        found: T = self.masks[key]
        return found


def exact(scalings: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Scalings to multiply values of this type with, in 32 bits where fewer would round them: 4/3 in bfloat16 is off by
    0.3 %, in the same direction for every value.
    """
    narrow = scalings.to(dtype)
    return narrow if torch.equal(narrow.double(), scalings) else scalings.to(torch.promote_types(dtype, torch.float32))
