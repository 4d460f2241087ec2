"""What ranges add up to, against the (operation, range) pairs written down one by one."""

import numpy as np
from arrays import LAUNCHES, RANGES, as_ranges, ints
from hypothesis import given, settings
from hypothesis import strategies as st
from lorabench.analyze.attribute.attribution import Launches, attribute
from lorabench.analyze.attribute.launches import Work
from lorabench.analyze.attribute.measures import by_range
from lorabench.analyze.attribute.ranges import Ranges
from lorabench.analyze.attribute.reach import Reach

# launch (none below 0), delay, length, device, whether it is a kernel
OPERATIONS = st.lists(
    st.tuples(st.integers(-1, 5), st.integers(-2, 20), st.integers(0, 15), st.integers(0, 1), st.booleans()),
    min_size=1,
    max_size=8,
)


def union(intervals: list[tuple[int, int]]) -> int:
    return len({moment for begin, end in intervals for moment in range(begin, end)})


def expected(reach: Reach, launch: np.ndarray, work: Work, ranges: Ranges) -> dict[int, dict[str, int]]:
    pairs = {
        (int(op), int(r)) for ops, rs, _ in reach.of_operations(launch).levels() for op, r in zip(ops, rs, strict=True)
    }
    answers = {}
    for range_ in sorted({r for _, r in pairs}):
        ops = sorted(op for op, r in pairs if r == range_)
        spans = [(int(work.start[i]), int(work.end[i])) for i in ops]
        low, high = int(ranges.start[range_]), int(ranges.end[range_])
        answers[range_] = {
            "gpu_op_cnt": len(ops),
            "kernel_cnt": sum(bool(work.is_kernel[i]) for i in ops),
            "launch_cnt": sum(bool(work.is_first_op[i]) for i in ops),
            "launch_api_ns": sum(int(work.launch_end[i] - work.launch_start[i]) for i in ops if work.is_first_op[i]),
            "queue_ns": sum(max(0, int(work.start[i] - work.launch_end[i])) for i in ops),
            "launch_latency_ns": sum(int(work.start[i] - work.launch_start[i]) for i in ops),
            "gpu_op_ns": sum(end - begin for begin, end in spans),
            "kernel_ns": sum(int(work.end[i] - work.start[i]) for i in ops if work.is_kernel[i]),
            "gpu_busy_ns": sum(
                union([span for i, span in zip(ops, spans, strict=True) if work.device[i] == device])
                for device in (0, 1)
            ),
            "first_gpu_start_ns": min(begin for begin, _ in spans),
            "last_gpu_end_ns": max(end for _, end in spans),
            "gpu_busy_inside_ns": union([(max(begin, low), min(end, high)) for begin, end in spans]),
        }
    return answers


@settings(max_examples=300)
@given(RANGES, LAUNCHES, OPERATIONS)
def test_ranges_add_up_to_their_pairs(rows: list[tuple], launches: list[tuple], operations: list[tuple]) -> None:
    ranges = as_ranges(rows)
    known = {row[0] for row in rows}
    found = attribute(
        ranges,
        Launches(
            process=np.zeros(len(launches), dtype=np.int64),
            track=ints([thread if thread in known else -1 for thread, _, _ in launches]),
            start=ints([start for _, start, _ in launches]),
            end=ints([start + length for _, start, length in launches]),
        ),
    )
    made = []
    for which, delay, length, device, is_kernel in operations:
        number = which % len(launches) if which >= 0 else -1
        begin = launches[number][1] if which >= 0 else 0
        made.append((max(0, begin + delay), length, number, device, is_kernel))
    made.sort()
    launch = ints([row[2] for row in made])
    start = ints([row[0] for row in made])
    work = Work(
        start=start,
        end=start + ints([row[1] for row in made]),
        device=ints([row[3] for row in made]),
        stream=np.zeros(len(made), dtype=np.int64),
        process=np.zeros(len(made), dtype=np.int64),
        is_kernel=np.array([row[4] for row in made]),
        launch_start=ints([launches[i][1] if i >= 0 else -1 for i in launch]),
        launch_end=ints([launches[i][1] + launches[i][2] if i >= 0 else -1 for i in launch]),
        launch_thread=ints([launches[i][0] if i >= 0 else -1 for i in launch]),
        is_first_op=np.array([row[2] not in [m[2] for m in made[:i]] for i, row in enumerate(made)]),
    )
    columns = by_range(found.reach, launch, work, ranges.start, ranges.end)
    numbers = {name: column.tolist() for name, column in columns.items()}
    got = {
        range_: {name: values[i] for name, values in numbers.items() if name != "range_id"}
        for i, range_ in enumerate(numbers["range_id"])
    }
    assert got == expected(found.reach, launch, work, ranges)
