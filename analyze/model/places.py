"""Where on its thread a moment lies: the innermost range that is open then."""

import numpy as np

from ..attribute.attribution import Attribution
from ..attribute.intervals import NONE, Forest, Ints, Tracks
from ..attribute.ranges import Ranges


def innermost(ranges: Ranges, found: Attribution, threads: Ints, thread: Ints, time: Ints) -> Ints:
    """The innermost range on each moment's thread, NONE without; `threads` are the threads of the tracks."""
    at = np.full(len(time), NONE, dtype=np.int64)
    track = np.searchsorted(threads, thread)
    known = np.flatnonzero(track < len(threads))
    known = known[threads[track[known]] == thread[known]]
    if known.size:
        tracks = Tracks.over(int(ranges.track.max()) + 1, ranges.start, ranges.end, time[known])
        start, end = tracks.place(ranges.track, ranges.start), tracks.place(ranges.track, ranges.end)
        places = tracks.place(track[known], time[known])
        at[known] = Forest(start, end, found.reach.tree.parent, found.reach.depth).innermost(places, places)
    return at
