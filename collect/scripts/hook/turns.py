"""Optimizers that step in turn, as of a generator and its discriminator: a step is a whole turn.

Which of them are the same is said by the keys of models.py.
"""

from typing import List

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
