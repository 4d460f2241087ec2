"""Optimizers that step in turn, as of a generator and its discriminator: a step is a whole turn.

Optimizers that share parameters, or train adapters of the same layers, are no such turn: of adapters in turn each step
is one adapter's.
"""

import gc
import weakref
from typing import Any, List, Set, Tuple

MOST = 12  # steps of a turn: what comes more seldom is no part of a step
UNKNOWN = 0  # the key of a step that no optimizer made: a scaler left it out


def length(keys: List[int]) -> int:
    """How many steps a turn has, by the keys of what stepped in each; 1 where there are no turns.

    The shortest period with several optimizers in it, of which there are two at least.
    """
    for count in range(2, min(MOST, len(keys) // 2) + 1):
        places = [set(keys[place::count]) - {UNKNOWN} for place in range(count)]
        if all(len(stepped) <= 1 for stepped in places) and len(set().union(*places)) > 1:
            return count
    return 1


def is_same(key: int, other: int) -> bool:
    """Whether the same may have stepped."""
    return key == other or UNKNOWN in (key, other)


class Keys:
    """A number for each optimizer, from 1; the same for those that are no turn."""

    def __init__(self) -> None:
        self._known: "List[Tuple[weakref.ref[Any], Set[int], int]]" = []

    def of(self, optimizer: Any) -> int:
        """The number of an optimizer."""
        for known, _, key in self._known:
            if known() is optimizer:
                return key
        own = {id(weight) for group in optimizer.param_groups for weight in group["params"]}
        alike = [key for _, other, key in self._known if own & other or _are_of_adapters(own, other)]
        key = alike[0] if alike else 1 + max((key for _, _, key in self._known), default=0)
        self._known.append((weakref.ref(optimizer), own, key))
        return key


def _are_of_adapters(own: Set[int], other: Set[int]) -> bool:
    """Whether a layer of PEFT has parameters of both."""
    layers = [found for found in gc.get_objects() if hasattr(type(found), "adapter_layer_names")]
    held = [{id(weight) for weight in layer.parameters()} for layer in layers if hasattr(layer, "parameters")]
    return any(own & weights and other & weights for weights in held)
