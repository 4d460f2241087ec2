"""The formulas behind a run's numbers. Needs no torch, so that a session starts without it."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


def statistics_of(values: Sequence[float]) -> dict[str, float | None]:
    """mean, p50, p95, p99, min and max; quantiles interpolated as in NumPy. None where there are no values."""
    if not values:
        return dict.fromkeys(("mean", "p50", "p95", "p99", "min", "max"))
    ordered = sorted(values)

    def quantile(q: float) -> float:
        place = q * (len(ordered) - 1)
        below = int(place)
        above = min(below + 1, len(ordered) - 1)
        return ordered[below] + (ordered[above] - ordered[below]) * (place - below)

    return {
        "mean": statistics.fmean(ordered), "p50": quantile(0.5), "p95": quantile(0.95), "p99": quantile(0.99),
        "min": ordered[0], "max": ordered[-1],
    }  # fmt: skip


@dataclass(frozen=True)
class Arithmetic:
    """Multiply-adds of the model that a token needs, counted as FLOP (2 each) in the forward."""

    frozen: int  # in products with weights that get no gradient
    trained: int  # in products with weights that do, other than adapters
    adapter: dict[str, int]  # the same, of each adapter
    adapter_frozen: dict[str, int]  # in an adapter's products with weights that get no gradient
    attention: int  # of scores and weighted values, for each token that a token looks at
    head: int = 0  # of frozen and trained those of the head, which no layer has
    layers_again: bool = False  # checkpointing runs their forward again, with adapters and attention
    head_again: bool = False  # the loss computes the head's products again
    looked_at_frac: float = 0.5  # of a sequence that a token looks at on average: in a causal model half

    def of(self, tokens: int, looked_at: float, adapter: str | None, *, with_recomputed: bool = True) -> float:
        """FLOP of forward and backward of so many tokens, each of which looks at so many others.

        A frozen weight costs 2 forward and 2 for the gradient of its input: 4, not 6. What is recomputed adds its
        forward again; the model needs it no more than once.
        """
        frozen = self.frozen + self.adapter_frozen.get(adapter or "", 0)
        trained = self.trained + self.adapter.get(adapter or "", 0)
        forward = frozen + trained + self.attention * looked_at
        backward = frozen + 2 * trained + 2 * self.attention * looked_at
        again = (forward - self.head if self.layers_again else 0) + (self.head if self.head_again else 0)
        return tokens * (forward + backward + (again if with_recomputed else 0))
