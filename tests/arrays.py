"""Ranges and launches as arrays, and strategies that draw them: threads, begins and lengths that overlap anyhow."""

import numpy as np
from hypothesis import strategies as st
from lorabench.analyze.attribute.ranges import Ranges

THREADS = 2  # track 0 is the main thread
TIMES = st.integers(0, 30)
# thread, begin, length, name, sequence number, whether it is a backward node; an annotation has no sequence number
RANGES = st.lists(
    st.tuples(
        st.integers(0, THREADS - 1),
        TIMES,
        st.integers(0, 20),
        st.integers(0, 2),
        st.one_of(st.none(), st.integers(1, 2)),
        st.booleans(),
    ),
    max_size=10,
)
LAUNCHES = st.lists(st.tuples(st.integers(0, THREADS - 1), TIMES, st.integers(0, 3)), min_size=1, max_size=6)


def ints(values: list[int]) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def as_ranges(rows: list[tuple]) -> Ranges:
    rows = sorted(rows, key=lambda r: (r[0], r[1], -r[2]))
    sequence = ints([-1 if r[4] is None else r[4] for r in rows])
    is_operator = sequence >= 0
    thread = ints([r[0] for r in rows])
    return Ranges(
        track=thread,
        process=np.zeros(len(rows), dtype=np.int64),
        start=ints([r[1] for r in rows]),
        end=ints([r[1] + r[2] for r in rows]),
        name=ints([r[3] for r in rows]),
        sequence=sequence,
        is_backward=is_operator & np.array([r[5] for r in rows], dtype=bool),
        is_annotation=~is_operator,
        is_python=np.zeros(len(rows), dtype=bool),
        is_operator=is_operator,
        is_main_thread=thread == 0,
        thread_track_cnt=THREADS,
    )
