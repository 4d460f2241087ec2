"""Which names hold a counter: `copy 0 … copy 58` are 59 calls of one thing, `layer 0 … layer 31` are 32 things.

family     c  c  c  l  l  l  l  l  l      ranges whose names differ in numbers alone
place      0  1  2  0  1  2  0  1  2      where the range's numbers stand among those of its family
start      1  2  3  4  5  6  7  8  9
counter    yes      no                    each number once, rising with time, one range after the other
"""

import numpy as np

from .intervals import Bools, Ints

LEAST_NUMBERS = 9
_MOST_REPEATED = 1.25  # ranges for each number of a thread
_LEAST_RISING = 0.95


def counters(family: Ints, place: Ints, thread: Ints, start: Ints, end: Ints) -> Bools:
    """For each family, numbered from 0 on, whether its numbers count calls."""
    size = int(family.max(initial=-1)) + 1
    order = np.lexsort((end, start, thread, family))
    family, place, thread, start, end = (column[order] for column in (family, place, thread, start, end))
    group = np.cumsum(np.concatenate([[False], (np.diff(family) != 0) | (np.diff(thread) != 0)])) if size else family
    of_group = family[np.unique(group, return_index=True)[1]]
    ranges = np.bincount(group)
    numbers = np.bincount(np.unique(np.stack([group, place]), axis=1)[0], minlength=len(ranges))
    is_pair = np.diff(group) == 0
    rises = is_pair & (np.diff(place) > 0) & (end[:-1] <= start[1:])
    rising = np.bincount(group[1:][rises], minlength=len(ranges))
    is_counted = (ranges <= _MOST_REPEATED * numbers) & (rising >= _LEAST_RISING * (ranges - 1))
    found = np.zeros(size, dtype=bool)
    found[of_group[numbers >= LEAST_NUMBERS]] = True
    found[of_group[~is_counted]] = False
    return found
