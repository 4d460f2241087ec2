"""The definitions of numbers, spelled out over a handful of rows: loops, sets and nothing shared with lorabench.

Times are small integers, so that the length of a union can be counted nanosecond by nanosecond.
"""

import re
import sqlite3
from collections import defaultdict
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Range:
    pid: int
    tid: int
    start: int
    end: int | None
    name: str
    end_tid: int | None = None
    sequence: int | None = None
    is_backward: bool = False

    @property
    def text(self) -> str:
        return self.name if self.sequence is None else f"{self.name}, seq = {self.sequence}"


@dataclass(frozen=True)
class Call:
    pid: int
    tid: int
    start: int
    end: int
    correlation: int


@dataclass(frozen=True)
class Op:
    pid: int
    device: int
    start: int
    end: int
    correlation: int
    kind: str = "kernel"


@dataclass(frozen=True)
class Trace:
    ranges: tuple[Range, ...]
    calls: tuple[Call, ...]
    ops: tuple[Op, ...]


class Answers:
    """All answers for one trace, worked out from the definitions."""

    def __init__(self, trace: Trace):
        self.trace = trace
        self.ranges = sorted(
            range(len(trace.ranges)), key=lambda i: (trace.ranges[i].start, -self.end(i), i)
        )  # outer before inner
        self.launch = {o: self._launch(op) for o, op in enumerate(trace.ops)}
        self.found = {o: self._found(call) for o, call in self.launch.items()}

    def end(self, i: int) -> int:
        r = self.trace.ranges[i]
        if r.end is not None:
            return r.end
        times = [c.end for c in self.trace.calls if (c.pid, c.tid) == (r.pid, r.tid)]
        times += [max(q.start, q.end or q.start) for q in self.trace.ranges if (q.pid, q.tid) == (r.pid, r.tid)]
        return max(times)

    def _crosses(self, i: int) -> bool:
        r = self.trace.ranges[i]
        return r.end_tid is not None and r.end_tid != r.tid

    def _launch(self, op: Op) -> Call | None:
        mine = [c for c in self.trace.calls if (c.pid, c.correlation) == (op.pid, op.correlation)]
        before = [c for c in mine if c.start <= op.start]
        return max(before, key=lambda c: c.start) if before else min(mine, key=lambda c: c.start, default=None)

    def _enclosing(self, pid: int, tid: int, start: int, end: int) -> list[int]:
        """Ranges of a thread around an interval, outermost first."""
        return [
            i
            for i in self.ranges
            if (self.trace.ranges[i].pid, self.trace.ranges[i].tid) == (pid, tid)
            and not self._crosses(i)
            and self.trace.ranges[i].start <= start
            and end <= self.end(i)
        ]

    def parent(self, i: int) -> int | None:
        r = self.trace.ranges[i]
        if self._crosses(i):
            return None
        around = self._enclosing(r.pid, r.tid, r.start, self.end(i))
        before = around[: around.index(i)]
        return before[-1] if before else None

    def path(self, i: int) -> tuple[str, ...]:
        above = self.parent(i)
        while above is not None and self._is_annotation(i) and not self._is_annotation(above):
            above = self.parent(above)
        return (*(self.path(above) if above is not None else ()), self.trace.ranges[i].name)

    def _is_annotation(self, i: int) -> bool:
        return self.trace.ranges[i].sequence is None

    def _root(self, i: int) -> int:
        above = self.parent(i)
        return i if above is None else self._root(above)

    def _found(self, call: Call | None) -> list[tuple[str, list[int], int]]:
        """(rule, ranges, innermost range) for each rule that applies to a launch, in order of the rules."""
        if call is None:
            return []
        found = []
        direct = self._enclosing(call.pid, call.tid, call.start, call.end)
        if direct:
            found.append(("direct", direct, direct[-1]))
        forward = self._forward(call.pid, direct)
        if forward is not None:
            r = self.trace.ranges[forward]
            around = self._enclosing(r.pid, r.tid, r.start, self.end(forward))
            found.append(("sequence", around[: around.index(forward) + 1], forward))
        waiting = self._waiting_thread(call.pid)
        if waiting is not None and waiting != call.tid:
            start, end = call.start, call.start + 1
            if direct and self._is_annotation(root := self._root(direct[-1])):
                start, end = self.trace.ranges[root].start, self.end(root)
            window = self._enclosing(call.pid, waiting, start, end)
            if window:
                found.append(("window", window, window[-1]))
        return found

    def _forward(self, pid: int, direct: list[int]) -> int | None:
        """The forward operator of the nearest backward node that has one, along the parents of the innermost range.

        None behind a forward operator, which recomputes.
        """
        node = direct[-1] if direct else None
        while node is not None:
            n = self.trace.ranges[node]
            if n.sequence is not None and not n.is_backward:
                return None
            if n.is_backward and n.sequence is not None:
                around = self._outermost_node(self.parent(node))
                if around is not None and self.trace.ranges[around].sequence == n.sequence:
                    around = None
                for place in (around, None):
                    operators = [
                        i
                        for i, r in enumerate(self.trace.ranges)
                        if (r.pid, r.sequence, r.is_backward) == (pid, n.sequence, False)
                        and r.start <= n.start
                        and self._outermost_node(i) == place
                    ]
                    if operators:
                        key = {i: k for k, i in enumerate(self._file_order())}
                        return max(operators, key=lambda i: (self.trace.ranges[i].start, key[i]))
            node = self.parent(node)
        return None

    def _outermost_node(self, i: int | None) -> int | None:
        """The outermost backward node that a range lies in or is."""
        found = None
        while i is not None:
            if self.trace.ranges[i].is_backward and self.trace.ranges[i].sequence is not None:
                found = i
            i = self.parent(i)
        return found

    def _file_order(self) -> list[int]:
        """Ranges by thread, then outer before inner: how ties between operators are broken."""

        def track(i: int) -> tuple[int, int, int]:
            r = self.trace.ranges[i]
            return (1, i, 0) if self._crosses(i) else (0, r.pid, r.tid)

        return sorted(self.ranges, key=track)

    def _waiting_thread(self, pid: int) -> int | None:
        threads: dict[int, int] = defaultdict(int)
        for i, r in enumerate(self.trace.ranges):
            if r.pid == pid and self._is_annotation(i) and not self._crosses(i):
                threads[r.tid] += self.end(i) - r.start
        if pid in threads:
            return pid
        return min(threads, key=lambda t: (-threads[t], t)) if threads else None

    def rules_by_path(self) -> dict[tuple[tuple[str, ...], int], str]:
        """(path, operation) -> the first rule that reaches the path."""
        reached: dict[tuple[tuple[str, ...], int], str] = {}
        for o, found in self.found.items():
            for rule, ranges, _ in found:
                for i in ranges:
                    reached.setdefault((self.path(i), o), rule)
        return reached

    def work_of_range(self) -> dict[int, set[int]]:
        work = defaultdict(set)
        for o, found in self.found.items():
            for _, ranges, _ in found:
                for i in ranges:
                    work[i].add(o)
        return work

    def owner(self, o: int) -> int | None:
        return self.found[o][0][2] if self.found[o] else None

    def busy(self, ops: set[int]) -> int:
        """Nanoseconds in which a device works, counted one by one, for each device."""
        return len({(op.device, t) for op in (self.trace.ops[o] for o in ops) for t in range(op.start, op.end)})

    def busy_inside(self, ops: set[int], start: int, end: int) -> int:
        return len(
            {t for op in (self.trace.ops[o] for o in ops) for t in range(max(op.start, start), min(op.end, end))}
        )

    def range_summary(self) -> dict[tuple[str, ...], dict[str, int]]:
        """The columns of range_summary by path, from the definitions."""
        summary: dict[tuple[str, ...], dict[str, int]] = defaultdict(lambda: defaultdict(int))
        for i, r in enumerate(self.trace.ranges):
            row, work = summary[self.path(i)], self.work_of_range()[i]
            row["range_cnt"] += 1
            row["unfinished_cnt"] += r.end is None
            row["wall_ns"] += self.end(i) - r.start
            below = {t for j in range(len(self.trace.ranges)) if self.parent(j) == i
                     for t in range(self.trace.ranges[j].start, self.end(j))}  # fmt: skip
            row["self_wall_ns"] += self.end(i) - r.start - len(below)
            row["launch_overhead_ns"] += self.end(i) - r.start - self.busy_inside(work, r.start, self.end(i))
            if work:
                ops = [self.trace.ops[o] for o in work]
                row["gpu_span_ns"] += max(o.end for o in ops) - min(o.start for o in ops)
        by_path: dict[tuple[str, ...], dict[int, str]] = defaultdict(dict)
        for (path, o), rule in self.rules_by_path().items():
            by_path[path][o] = rule
        for path, rules in by_path.items():
            self._add_work(summary[path], rules, "")
            own = {o: rule for o, rule in rules.items() if (w := self.owner(o)) is not None and self.path(w) == path}
            self._add_work(summary[path], own, "self_")
            summary[path]["gpu_busy_ns"] = self.busy(set(rules))
        return summary

    def _add_work(self, row: dict[str, int], rules: dict[int, str], prefix: str) -> None:
        calls = {self.launch[o] for o in rules}
        row[f"{prefix}launch_cnt"] = len(calls)
        row[f"{prefix}launch_api_ns"] = sum(c.end - c.start for c in calls if c)
        for o, rule in rules.items():
            op, call = self.trace.ops[o], self.launch[o]
            assert call
            row[f"{prefix}queue_ns"] += max(0, op.start - call.end)
            row[f"{prefix}launch_latency_ns"] += op.start - call.start
            row[f"{prefix}gpu_op_cnt"] += 1
            row[f"{prefix}gpu_op_ns"] += op.end - op.start
            if op.kind == "kernel":
                row[f"{prefix}kernel_cnt"] += 1
                row[f"{prefix}kernel_ns"] += op.end - op.start
                if not prefix:
                    row[f"{rule}_kernel_ns"] += op.end - op.start


def write_nsys(trace: Trace, path: Path) -> None:
    """The trace as an nsys export with the fewest columns."""
    path.unlink(missing_ok=True)
    work = "start integer, end integer, deviceId integer, streamId integer, correlationId integer, globalPid integer"

    def thread(pid: int, tid: int) -> int:
        return pid << 24 | tid

    with closing(sqlite3.connect(path)) as file, file:
        file.execute("create table StringIds (id integer, value text)")
        file.execute("insert into StringIds values (1, 'cudaLaunchKernel_v7000'), (2, 'gemm')")
        file.execute(f"create table CUPTI_ACTIVITY_KIND_KERNEL ({work}, demangledName integer)")
        file.execute(f"create table CUPTI_ACTIVITY_KIND_MEMSET ({work}, bytes integer)")
        file.execute("create table CUPTI_ACTIVITY_KIND_RUNTIME (start integer, end integer, globalTid integer, "
                     "correlationId integer, nameId integer)")  # fmt: skip
        file.execute("create table NVTX_EVENTS (start integer, end integer, eventType integer, text text, "
                     "globalTid integer, endGlobalTid integer)")  # fmt: skip
        for op in trace.ops:
            table, last = ("KERNEL", 2) if op.kind == "kernel" else ("MEMSET", 64)
            row = (op.start, op.end, op.device, 7, op.correlation, op.pid << 24, last)
            file.execute(f"insert into CUPTI_ACTIVITY_KIND_{table} values (?, ?, ?, ?, ?, ?, ?)", row)
        for c in trace.calls:
            row = (c.start, c.end, thread(c.pid, c.tid), c.correlation, 1)
            file.execute("insert into CUPTI_ACTIVITY_KIND_RUNTIME values (?, ?, ?, ?, ?)", row)
        for r in trace.ranges:
            end_thread = None if r.end_tid is None else thread(r.pid, r.end_tid)
            text = r.text if r.sequence is None else re.sub(r"$", ", op_id = 1", r.text)
            row = (r.start, r.end, 59 if r.end_tid is None else 60, text, thread(r.pid, r.tid), end_thread)
            file.execute("insert into NVTX_EVENTS values (?, ?, ?, ?, ?, ?)", row)


def check_categories(database: Any) -> dict[str, int]:
    """At every moment the categories of memory add up to what is allocated; gives the most bytes of each."""
    changes: dict[tuple[Any, ...], list[tuple[Any, ...]]] = defaultdict(list)
    for *place, time, category, live, guessed in database.rows(
        "select source_id, process_id, device, coalesce(time_ns, event_number), category, live_bytes, heuristic_bytes "
        "from memory_by_category"
    ):
        assert 0 <= guessed <= live
        changes[tuple(place)].append((time, category, live))
    levels: dict[tuple[Any, ...], dict[int, int]] = defaultdict(dict)
    for *place, time, allocated in database.rows(
        "select source_id, process_id, device, coalesce(time_ns, event_number), arg_max(live_bytes, bytes) "
        "from memory_timeline "
        "group by all"
    ):
        levels[tuple(place)][time] = allocated
    most: dict[str, int] = defaultdict(int)
    held = {place for place, level in levels.items() if any(level.values())}  # of nothing there is no category
    assert levels and held <= set(changes) <= set(levels)
    for place, level in levels.items():
        now: dict[str, int] = {}
        left = sorted(changes[place], reverse=True)
        for time in sorted(level):
            while left and left[-1][0] <= time:
                _, category, live = left.pop()
                now[category] = live
                most[category] = max(most[category], live)
            assert sum(now.values()) == level[time], (place, time)
        assert not left
    return dict(most)
