"""The critical path: by hand, and against the definitions in plain Python."""

from itertools import pairwise

import numpy as np
import pytest
from conftest import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st
from lorabench.analyze.attribute import critical_path as module
from lorabench.analyze.attribute.critical_path import (  # fmt: skip
    CPU,
    GPU,
    KINDS,
    LATE_LAUNCH_NS,
    LAUNCH,
    LONG_DELAY_NS,
    WAIT,
    Segments,
    critical_path,
    lend,
)
from lorabench.analyze.attribute.launches import Work

MAIN, OTHER = 1, 2
Op = tuple[int, int, int, int, int, int]  # start, end, stream, call start, call end, thread


def work(ops: list[Op]) -> Work:
    columns = np.array(ops, dtype=np.int64).reshape(-1, 6).T
    start, end, stream, call_start, call_end, thread = columns
    none = np.zeros_like(start)
    return Work(start, end, stream // 10, stream, none, none > 0, call_start, call_end, thread, none > 0)


def path(ops: list[Op], waits: list[tuple[int, int]], end: int, begin: int = 0) -> list[tuple[str, int, int, int]]:
    """(kind, start, end, operation or thread) of each segment."""
    pairs = np.array(waits, dtype=np.int64).reshape(-1, 2).T
    found = critical_path(work(sorted(ops)), *pairs, begin, end, MAIN)
    who = np.where(found.operation >= 0, found.operation, found.thread)
    return [
        (KINDS[k], *rest)
        for k, *rest in zip(found.kind, *map(np.ndarray.tolist, (found.start, found.end, who)), strict=True)
    ]


def test_a_late_cpu_is_on_the_path_with_the_delay_of_its_launch() -> None:
    assert path([(20, 50, 0, 10, 15, MAIN)], [(30, 60)], 70) == [
        (CPU, 0, 15, MAIN), (LAUNCH, 15, 20, 0), (GPU, 20, 50, 0), (CPU, 50, 70, MAIN),
    ]  # fmt: skip


def test_work_that_was_queued_waits_for_its_stream() -> None:
    ops = [(20, 50, 0, 10, 15, MAIN), (52, 90, 0, 16, 18, MAIN)]
    assert path(ops, [], 90) == [
        (CPU, 0, 15, MAIN), (LAUNCH, 15, 20, 0), (GPU, 20, 50, 0), (WAIT, 50, 52, 1), (GPU, 52, 90, 1),
    ]  # fmt: skip


def test_a_synchronisation_leads_back_to_the_gpu() -> None:
    ops = [(20, 50, 0, 10, 15, MAIN), (72, 80, 0, 65, 70, MAIN)]
    assert path(ops, [(20, 55)], 80) == [
        (CPU, 0, 15, MAIN), (LAUNCH, 15, 20, 0), (GPU, 20, 50, 0), (CPU, 50, 70, MAIN), (LAUNCH, 70, 72, 1),
        (GPU, 72, 80, 1),
    ]  # fmt: skip


def test_without_a_synchronisation_work_that_ended_early_is_not_on_the_path() -> None:
    ops = [(20, 50, 0, 10, 15, MAIN), (72, 80, 0, 65, 70, MAIN)]
    assert path(ops, [], 80) == [(CPU, 0, 70, MAIN), (LAUNCH, 70, 72, 1), (GPU, 72, 80, 1)]


def test_a_long_delay_on_a_free_stream_is_a_wait_for_other_work() -> None:
    late = 100 + LONG_DELAY_NS
    ops = [(20, late - 5, 0, 10, 15, MAIN), (late, late + 9, 1, 16, 18, MAIN)]
    assert [s for s in path(ops, [], late + 9) if s[0] in (WAIT, GPU)] == [
        (GPU, 20, late - 5, 0), (WAIT, late - 5, late, 1), (GPU, late, late + 9, 1),
    ]  # fmt: skip


def test_work_that_begins_too_long_after_its_call_waited_for_what_is_not_recorded() -> None:
    """As a first copy behind the kernels that ran before the recording began. Idle time has the same limit."""
    assert f"('late_launch_ns', {LATE_LAUNCH_NS}.0," in (ROOT / "sql" / "0_rows" / "threshold.sql").read_text("utf-8")
    late = 15 + LATE_LAUNCH_NS
    assert path([(late, late + 9, 0, 10, 15, MAIN)], [], late + 9)[1] == (LAUNCH, 15, late, 0)
    assert path([(late + 1, late + 9, 0, 10, 15, MAIN)], [], late + 9)[1] == (WAIT, 15, late + 1, 0)


def test_work_that_another_device_hands_on_waits_for_it() -> None:
    until = 2 * LONG_DELAY_NS
    ops = [(20, 50, 0, 10, 15, MAIN), (60, until, 10, 16, 18, MAIN), (until + 5, until + 9, 0, 20, 22, MAIN)]
    assert path(ops, [], until + 9)[-3:] == [
        (GPU, 60, until, 1), (WAIT, until, until + 5, 2), (GPU, until + 5, until + 9, 2),
    ]  # fmt: skip


def test_time_of_another_thread_begins_with_its_first_call() -> None:
    ops = [(21, 22, 0, 20, 21, OTHER), (45, 50, 0, 40, 43, OTHER)]
    assert path(ops, [], 50)[:2] == [(CPU, 0, 20, MAIN), (CPU, 20, 43, OTHER)]


def test_a_trace_without_gpu_work_is_the_main_threads() -> None:
    assert path([], [], 50) == [(CPU, 0, 50, MAIN)]


@st.composite
def traces(draw: st.DrawFn) -> tuple[list[Op], list[tuple[int, int]]]:
    ops = []
    for _ in range(draw(st.integers(0, 7))):
        call = draw(st.integers(0, 40_000))
        call_end = call + draw(st.integers(0, 9))
        delays = [0, 3, LONG_DELAY_NS + 7, LATE_LAUNCH_NS, LATE_LAUNCH_NS + 1]
        start = draw(st.sampled_from([call + 1, *(call_end + delay for delay in delays)]))
        device, stream = draw(st.integers(0, 1)), draw(st.integers(0, 2))
        known = draw(st.integers(0, 5)) > 0
        length = draw(st.integers(0, 20_000))
        call_end = draw(st.sampled_from([call_end, start + length, start + length + 5]))
        launch = (call, call_end, draw(st.sampled_from([MAIN, OTHER]))) if known else (-1, -1, -1)
        ops.append((start, start + length, 10 * device + stream, *launch))
    starts = st.integers(0, 60_000)
    return sorted(ops), draw(st.lists(st.tuples(starts, st.integers(0, 20_000)), max_size=4))


def by_definition(ops: list[Op], waits: list[tuple[int, int]], end: int) -> list[tuple[str, int, int, int]]:
    """Step by step, with loops over everything."""
    is_held = [o[0] - o[4] > LATE_LAUNCH_NS for o in ops]
    ops = [(*o[:4], o[3] if o[3] >= 0 and o[4] >= o[1] else o[4], o[5]) for o in ops]  # a blocking call launches first
    count = range(len(ops))
    woken = []
    for begun, done in sorted(waits, key=lambda w: (w[1], w[0])):
        ended = [i for i in count if ops[i][1] <= done]
        last = max(ended, key=lambda i: (ops[i][1], ops[i][0], i), default=None)
        if last is not None and ops[last][1] > begun and ops[last][3] <= begun:
            woken.append((done, last))

    def by_gpu(i: int) -> int | None:
        start, _, stream, call_start, call_end, _ = ops[i]
        previous = max((j for j in count if j < i and ops[j][2] == stream), default=None)
        is_behind = previous is not None and (call_start < 0 or ops[previous][1] > call_end)
        ready = ops[previous][1] if is_behind else call_end
        found = previous if is_behind else None
        if call_start >= 0 and start - ready > LONG_DELAY_NS:
            for is_own in (False, True):
                ended = [j for j in count if (ops[j][2] // 10 == stream // 10) == is_own and ops[j][1] <= start]
                other = max(ended, key=lambda j: (ops[j][1], ops[j][0], j), default=None)
                if other is None or ops[other][1] <= ready or ops[other][0] >= start:
                    continue
                is_near = start - ops[other][1] <= LONG_DELAY_NS
                if is_near or (is_own and not is_behind and found is None):
                    found = other
        return found

    found: list[tuple[str, int, int, int]] = []
    at = max(count, key=lambda i: (ops[i][1], ops[i][0], i), default=None)
    if at is not None and ops[at][1] < end and woken:
        at = next((i for done, i in reversed(woken) if done <= end), None)
    until = ops[at][1] if at is not None else 0
    if until < end:
        found.append((CPU, until, end, MAIN))
    while at is not None:
        start, _, _, call_start, call_end, thread = ops[at]
        found.append((GPU, start, until, at))
        earlier = by_gpu(at)
        if earlier is not None:
            until = min(ops[earlier][1], start)
            found.append((WAIT, until, start, at))
        else:
            known = [i for done, i in woken if done <= call_start]
            earlier = known[-1] if known and ops[known[-1]][0] < start else None
            since = min(ops[earlier][1] if earlier is not None else 0, start)
            called = start if thread < 0 else max(min(call_end, start), since)
            found.append((WAIT if is_held[at] else LAUNCH, called, start, at))
            handed = since
            if thread == OTHER:
                calls = sorted(o[3] for o in ops if o[5] == OTHER and o[3] >= since)
                handed = min(calls[0], called) if calls else called
            found.append((CPU, handed, called, MAIN if thread < 0 else thread))
            found.append((CPU, since, handed, MAIN))
            until = since
        at = earlier
    return [s for s in reversed(found) if s[2] > s[1]]


def test_a_copy_that_blocks_the_cpu_is_a_wait_for_what_is_queued() -> None:
    kernel, copy = (5, 1000, 0, 0, 4, MAIN), (1000, 1008, 0, 10, 1010, MAIN)
    assert path([kernel, copy], [(10, 1008)], 1100) == [
        (CPU, 0, 4, MAIN), (LAUNCH, 4, 5, 0), (GPU, 5, 1000, 0), (GPU, 1000, 1008, 1), (CPU, 1008, 1100, MAIN),
    ]  # fmt: skip


@settings(max_examples=400)
@given(traces())
def test_the_path_is_that_of_the_definition_and_a_partition_of_the_time(trace: tuple[list[Op], list]) -> None:
    ops, lengths = trace
    waits = [(start, start + length) for start, length in lengths]
    end = max([o[1] for o in ops] + [w[1] for w in waits] + [1])
    found = path(ops, waits, end)
    assert found == by_definition(ops, waits, end)
    assert found[0][1] == 0 and found[-1][2] == end
    assert all(a[2] == b[1] for a, b in pairwise(found))


@settings(max_examples=200)
@given(traces())
def test_on_one_stream_everything_that_was_queued_behind_another_is_on_the_path(trace: tuple[list[Op], list]) -> None:
    """Where the CPU never waits and every launch precedes all GPU work, the path is the stream's whole work."""
    ops = []
    at = 100_000
    for start, end, *_ in trace[0]:
        ops.append((at, at + end - start, 0, 1, 2, MAIN))
        at += end - start
    if not ops:
        return
    gpu = sum(e - s for kind, s, e, _ in path(ops, [], at) if kind == GPU)
    assert gpu == sum(end - start for start, end, *_ in ops)
    assert module.LONG_DELAY_NS > 0


SPANS = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 30), st.sampled_from([OTHER, 3])), max_size=5)


@settings(max_examples=300)
@given(st.lists(st.integers(1, 20), max_size=6), SPANS)
def test_the_main_threads_time_goes_to_who_worked(lengths: list[int], spans: list[tuple[int, int, int]]) -> None:
    """Nanosecond by nanosecond: to the first to begin of those at work, else to the main thread."""
    ends = np.cumsum([0, *lengths]).astype(np.int64)
    kind = np.array([KINDS.index(CPU) if n % 2 else KINDS.index(GPU) for n in range(len(lengths))], dtype=np.int64)
    thread = np.where(kind == KINDS.index(CPU), MAIN, -1)
    operation = np.where(kind == KINDS.index(CPU), -1, np.arange(len(lengths)))
    found = Segments(kind, ends[:-1], ends[1:], operation, thread)
    others = sorted((start, start + length, who) for start, length, who in spans)
    result = lend(found, MAIN, *np.array(others, dtype=np.int64).reshape(-1, 3).T)
    owner: dict[int, int] = {}
    for start, end, who in others:
        for t in range(start, end):
            owner.setdefault(t, who)
    expected, seen = [], []
    for k, start, end, t in zip(kind, ends[:-1], ends[1:], thread, strict=True):
        expected += [(k, owner.get(at, MAIN) if t == MAIN else t) for at in range(start, end)]
    for k, start, end, t in zip(result.kind, result.start, result.end, result.thread, strict=True):
        seen += [(k, t)] * (end - start)
    assert seen == expected


@pytest.mark.parametrize("is_fed", [False, True])
def test_a_call_that_outlasts_half_of_its_copy_waits_for_it_only_if_it_feeds_it(is_fed: bool) -> None:
    """As a graph's launch does not, nor a pinned copy's."""
    ops = work([(20_000, 80_000, 7, 10_000, 60_000, MAIN), (200_000, 210_000, 7, 190_000, 195_000, MAIN)])
    none = np.zeros(0, dtype=np.int64)
    found = critical_path(ops, none, none, 0, 210_000, MAIN, np.array([is_fed, False]))
    assert (0 in found.operation) == is_fed
