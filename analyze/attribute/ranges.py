"""The ranges of one source as arrays: what attribution and its neighbours look at."""

from dataclasses import dataclass

from .intervals import Bools, Ints


@dataclass(frozen=True)
class Ranges:
    """The ranges of one source as arrays, sorted by (track, start, -end, order in the file).

    A track is a thread, or the Python frames of a thread, or one range that crosses threads.
    """

    track: Ints
    process: Ints
    start: Ints
    end: Ints
    name: Ints
    sequence: Ints  # NONE without
    is_backward: Bools
    is_annotation: Bools
    is_python: Bools
    is_operator: Bools
    is_main_thread: Bools
    thread_track_cnt: int  # tracks below this number are threads; Python frames and crossing ranges come after
