"""What a step is about: whose it is, what each forward and backward of it takes, and what it computed."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch

from ..settings.spec import AdapterSpec
from .data import Batch
from .loader import Loaded


@dataclass(frozen=True)
class Task:
    """One optimizer step of one adapter, or of all in batch mode."""

    step: int
    adapters: tuple[AdapterSpec, ...]

    @property
    def name(self) -> str:
        """The adapters' names, joined."""
        return "+".join(a.name for a in self.adapters)

    def micro_steps(self) -> Iterator[list[AdapterSpec]]:
        """Who takes part in each forward and backward: an adapter in as many as it accumulates gradients of."""
        for micro in range(max(a.grad_accum for a in self.adapters)):
            yield [a for a in self.adapters if micro < a.grad_accum]


@dataclass
class Done:
    """What a task computed: losses still on the device, and (computed, non-padding, trained) tokens by adapter."""

    task: Task
    losses: torch.Tensor
    tokens: dict[str, tuple[int, int, int]]
    computed_cnt: int  # with the padding of the union batch
    longest: int  # length of its sequences, padding included; of packed ones as a token meets them on average
    rows: int  # sequences
    own_cnt: int  # of the computed tokens those that this process computed
    phase_ns: dict[str, int] = field(default_factory=dict)  # of a rank: how long each phase took
    correct: torch.Tensor | None = None  # rows whose class was found, still on the device; None where nobody asks
    waited_ns: int = 0  # for input
    made_ns: int = 0  # how long making the input took, here or in the loader's workers
    optimizer_ns: int = 0  # how long the CPU was in the optimizer's phase


@dataclass(frozen=True)
class MicroStep:
    """What one forward and backward is about: so many rows of each adapter, padded to the longest.

    `shares` are how much of each adapter's batch this process has: 1, unless it shares the batch with others. `weights`
    are how much of the losses of each adapter's optimizer step its batch has: 1, unless gradients are accumulated.
    """

    adapters: list[AdapterSpec]
    batch: Batch
    rows: list[int]
    shares: list[float]
    weights: list[float]
    is_last: bool  # before the optimizer


@dataclass(frozen=True)
class Piece:
    """What a micro step of a step takes: whose it is, and what was loaded for it."""

    adapters: list[AdapterSpec]
    loaded: Loaded

    def tokens(self) -> dict[str, tuple[int, int, int]]:
        """Tokens of each adapter: computed with the union's padding, non-padding, trained."""
        return {a.name: counts for a, counts in zip(self.adapters, self.loaded.tokens, strict=True)}


def tokens_of(pieces: Sequence[Piece]) -> dict[str, tuple[int, int, int]]:
    """The same of all pieces of a step."""
    total: dict[str, tuple[int, int, int]] = {}
    for piece in pieces:
        for name, (x, y, z) in piece.tokens().items():
            before = total.get(name, (0, 0, 0))
            total[name] = before[0] + x, before[1] + y, before[2] + z
    return total


def micro_steps_of(pieces: Sequence[Piece]) -> Iterator[MicroStep]:
    """The micro steps that train the pieces of a step."""
    weights = weights_of([{name: trained for name, (_, _, trained) in piece.tokens().items()} for piece in pieces])
    for number, (piece, own) in enumerate(zip(pieces, weights, strict=True), 1):
        loaded = piece.loaded
        is_last = number == len(pieces)
        yield MicroStep(piece.adapters, loaded.batch, list(loaded.rows), list(loaded.shares), own, is_last)


def weights_of(loss_cnts: Sequence[dict[str, int]]) -> list[list[float]]:
    """How much each micro step counts in each adapter's optimizer step, by the losses that its batch has a mean of.

    So a step is the mean over its tokens, in however many pieces it is computed: a mean of means would count those of
    short batches more. As transformers does since 4.46.
    """
    total: Counter[str] = Counter()
    for counts in loss_cnts:
        total.update(counts)
    pieces = Counter(name for counts in loss_cnts for name in counts)
    return [
        [count / total[name] if total[name] else 1 / pieces[name] for name, count in counts.items()]
        for counts in loss_cnts
    ]
