"""A trace for ui.perfetto.dev and chrome://tracing of whatever was read: nsys files, traces of torch, several ranks.

    CPU of a process     thread: ranges, and CUDA calls inside them ──┐ arrow from the call
    GPU                  stream: kernels, copies ◄────────────────────┘ to its work
                         idle, by rule: each gap and the finding that is blamed for it
    counters             how busy a GPU is, its hardware counters, memory by category

Slices of one track must nest in this format: what overlaps otherwise goes to a second track of the same name. Times are
microseconds with three digits, from the first event on, so that no nanosecond is lost.
"""

import json
from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import count, islice, pairwise
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from ..analyze.store.database import Database
from ..analyze.store.jobs import require_no_job
from ..errors import UsageError
from ..vocabulary import MADE_FOR_PERFETTO
from .tables.files import replacing

SUFFIXES = (".json", ".json.gz")
_LINES_AT_ONCE = 10_000
_CPU = "from _trace_cpu where source_id = {id} order by thread_id, start_ns, end_ns desc, api_call_id"
_GPU = "from _trace_gpu where source_id = {id} order by device_id, stream_id, start_ns, end_ns desc"
_IDLE = """
    select coalesce(device_id, -1) as device_id, start_ns, end_ns, rule, coalesce(path_id, -1) as path_id
    from _blamed_gap
    where source_id = {id} and rule is not null
    order by device_id, start_ns"""
_BUSY = """
    select coalesce(device_id, -1) as device_id, start_ns, end_ns, busy_frac
    from utilisation_over_time
    where source_id = {id}
    order by device_id, bin"""
_METRICS = """
    select distinct device_id, name_id, metric
    from _trace_counter
    where source_id = {id}
    order by device_id, metric"""
_COUNTER = """
    select time_ns, value
    from _trace_counter
    where source_id = {id} and device_id = {device} and name_id = {metric}
    order by time_ns"""
_MEMORY = "select * exclude source_id from _trace_memory where source_id = {id} order by time_ns"

Column = npt.NDArray[Any]
Place = tuple[int, int, int]  # process, track, time


def write(database: Database, path: Path) -> None:
    """Write all that happened to a .json or .json.gz. Raises UsageError for a job, OutputError when it cannot."""
    check(path)
    require_no_job(database, "--perfetto")
    with replacing(path) as partial, _opened(partial, path.name.endswith(".gz")) as file:
        made_by = f'"otherData": {{"made by": "{MADE_FOR_PERFETTO}"}}'
        file.write(f'{{"displayTimeUnit": "ns", {made_by}, "traceEvents": [\n')
        every, between = _Export(database).lines(), ""
        while lines := list(islice(every, _LINES_AT_ONCE)):
            file.write(between + ",\n".join(lines))
            between = ",\n"
        file.write("\n]}\n")


def check(path: Path) -> None:
    """Raise UsageError for a file that Perfetto would not know by its name."""
    if not path.name.endswith(SUFFIXES):
        raise UsageError(f"--perfetto {path}: write to a .json or .json.gz")


def _opened(path: Path, is_packed: bool) -> IO[str]:
    if is_packed:
        from isal import igzip

        return igzip.open(path, "wt", encoding="utf-8")  # type: ignore[no-untyped-call, no-any-return]
    return path.open("w", encoding="utf-8")


class _Export:
    """The events of all sources, as lines of JSON."""

    def __init__(self, database: Database):
        self._database = database
        self._numbers = count(1)  # of processes, tracks and arrows: ids mean nothing beyond this file
        self._texts = self._quoted("select name_id, text from name")
        self._paths = self._quoted("select path_id, path from range_path")

    def _quoted(self, statement: str) -> dict[int, str]:
        return {number: json.dumps(text) for number, text in self._database.rows(statement)}

    def lines(self) -> Iterator[str]:
        """All events: those that name tracks stand before what is on them."""
        zeros = self._zeros()
        for source in self._database.dicts(
            "select source_id, name, rank, host from source where kind is not null order by source_id"
        ):
            number, whose = source["source_id"], _whose(source)
            if number not in zeros:  # nothing happened in it
                continue
            calls = yield from self._cpu(number, whose, zeros[number])
            yield from self._gpu(number, whose, zeros[number], calls)
            yield from self._memory(number, whose, zeros[number])

    def _zeros(self) -> dict[int, int]:
        """What becomes 0 of each source: the first event of all whose clocks are known to each other, else its own.

        Clocks of ranks are those that clock_offset has aligned; where one runs away, as it stood at the start.
        """
        begins = dict(self._database.rows("from _trace_begin"))
        for statement in (
            "select source_id, offset_ns from clock where piece_id = 0",
            "select source_id, -origin_ns from source where origin_ns is not null",
        ):
            ahead = dict(self._database.rows(statement))
            if begins.keys() <= ahead.keys():
                first = min((begin - ahead[number] for number, begin in begins.items()), default=0)
                return {number: first + ahead[number] for number in begins}
        return begins

    def _cpu(self, number: int, whose: str, zero: int) -> Generator[str, None, dict[int, Place]]:
        """Ranges and calls by thread; returns where each call is."""
        found = self._database.columns(_CPU.format(id=number))
        names = {
            thread: (process, pid, _thread(tid, name))
            for thread, process, pid, tid, name in self._database.rows(
                f"select thread_id, coalesce(process_id, 0), pid, tid, name from thread where source_id = {number}"
            )
        }
        processes: dict[int, int] = {}
        calls: dict[int, Place] = {}
        for rows in _runs(found["thread_id"]):
            process, pid, name = names.get(int(found["thread_id"][rows.start]), (0, None, "thread"))
            if process not in processes:
                processes[process] = next(self._numbers)
                known = "" if pid is None else f", process {pid}"
                yield _named("process_name", processes[process], 0, f"CPU{whose}{known}")
            own = yield from self._tracks(processes[process], name, found["start_ns"][rows], found["end_ns"][rows])
            yield from self._slices(found, rows, processes[process], own, zero)
            begins = found["start_ns"][rows].tolist()
            for call, at, start in zip(found["api_call_id"][rows].tolist(), own, begins, strict=True):
                if call >= 0:
                    calls[call] = processes[process], at, start - zero
        return calls

    def _slices(
        self, found: dict[str, Column], rows: slice, process: int, tracks: Sequence[int], zero: int
    ) -> Iterator[str]:
        columns = (found[name][rows].tolist() for name in ("start_ns", "end_ns", "kind", "name_id", "path_id"))
        for track, start, end, kind, text, path in zip(tracks, *columns, strict=True):
            args = "" if path < 0 else f'"path":{self._paths[path]}'
            yield _slice(self._texts[text], kind, process, track, start - zero, end - start, args)

    def _gpu(self, number: int, whose: str, zero: int, calls: dict[int, Place]) -> Iterator[str]:
        """GPU work by stream, with an arrow from its call; idle time by what it is blamed on; how busy it was."""
        found = self._database.columns(_GPU.format(id=number))
        devices: dict[int, int] = {}
        for rows in _runs(found["device_id"], found["stream_id"]):
            device, stream = int(found["device_id"][rows.start]), int(found["stream_id"][rows.start])
            if device not in devices:
                devices[device] = next(self._numbers)
                yield _named("process_name", devices[device], 0, _device(device) + whose)
            name = "work" if stream < 0 else f"stream {stream}"
            begin = found["start_ns"][rows]
            own = yield from self._tracks(devices[device], name, begin, found["end_ns"][rows])
            yield from self._slices(found, rows, devices[device], own, zero)
            for call, at, start in zip(found["api_call_id"][rows].tolist(), own, begin.tolist(), strict=True):
                if call in calls:
                    yield from _arrow(next(self._numbers), calls[call], (devices[device], at, start - zero))
        yield from self._idle(number, devices, zero)
        for device, start, end, share in self._database.rows(_BUSY.format(id=number)):
            if device in devices and end > start:
                yield _counted("busy %", devices[device], start - zero, "busy", 100 * share)
        yield from self._counters(number, devices, zero)

    def _counters(self, number: int, devices: dict[int, int], zero: int) -> Iterator[str]:
        """What the hardware counters of devices with work say, whenever they say something new."""
        for device, metric, name in self._database.rows(_METRICS.format(id=number)):
            if device not in devices:
                continue
            found = self._database.columns(_COUNTER.format(id=number, device=device, metric=metric))
            for time, value in zip(found["time_ns"].tolist(), found["value"].tolist(), strict=True):
                yield _counted(name, devices[device], time - zero, "value", value)

    def _idle(self, number: int, devices: dict[int, int], zero: int) -> Iterator[str]:
        tracks: dict[int, int] = {}
        for device, start, end, rule, path in self._database.rows(_IDLE.format(id=number)):
            if device not in devices:
                continue
            if device not in tracks:
                tracks[device] = next(self._numbers)
                yield _named("thread_name", devices[device], tracks[device], "idle, by rule")
            args = "" if path < 0 else f'"path":{self._paths[path]}'
            name = json.dumps(rule.replace("_", " "))
            yield _slice(name, "idle", devices[device], tracks[device], start - zero, end - start, args)

    def _memory(self, number: int, whose: str, zero: int) -> Iterator[str]:
        devices: dict[str, int] = {}
        for device, category, time, live in self._database.rows(_MEMORY.format(id=number)):
            if device not in devices:
                devices[device] = next(self._numbers)
                yield _named("process_name", devices[device], 0, f"memory of {device}{whose}")
            yield _counted("MiB", devices[device], time - zero, category, live / 2**20)

    def _tracks(self, process: int, name: str, begin: Column, end: Column) -> Generator[str, None, list[int]]:
        """Name the tracks that a thread or stream takes; returns the track of each slice."""
        chosen = lanes(begin.tolist(), end.tolist())
        tracks = [next(self._numbers) for _ in range(max(chosen, default=-1) + 1)]
        for lane, track in enumerate(tracks):
            yield _named("thread_name", process, track, name if lane == 0 else f"{name} ({lane + 1})")
        return [tracks[lane] for lane in chosen]


def lanes(begin: Iterable[int], end: Iterable[int]) -> list[int]:
    """For each of the slices, in order of begin and the longer first, the first lane in which it nests.

    lane 0   ──a──────────      b would end behind a, in which it begins
               ─c─
    lane 1        ───b──────
    """
    open_ends: list[list[int]] = []
    found = []
    for start, stop in zip(begin, end, strict=True):
        for lane, ends in enumerate(open_ends):
            while ends and ends[-1] <= start:
                ends.pop()
            if not ends or stop <= ends[-1]:
                ends.append(stop)
                found.append(lane)
                break
        else:
            found.append(len(open_ends))
            open_ends.append([stop])
    return found


def _runs(*keys: Column) -> Iterator[slice]:
    """The stretches of rows in which all keys stay the same."""
    size = len(keys[0])
    if not size:
        return
    differs = np.zeros(size - 1, bool)
    for key in keys:
        differs |= key[1:] != key[:-1]
    borders = [0, *(np.flatnonzero(differs) + 1).tolist(), size]
    yield from (slice(first, last) for first, last in pairwise(borders))


def _whose(source: dict[str, Any]) -> str:
    rank = source["name"] if source["rank"] is None else f"rank {source['rank']}"
    return f" of {rank}" + (f" on {source['host']}" if source["host"] else "")


def _thread(tid: int | None, name: str | None) -> str:
    if tid is None or (name and str(tid) in name):
        return name or "thread"
    return f"thread {tid}" + (f" {name}" if name else "")


def _device(number: int) -> str:
    return "GPU" if number < 0 else f"GPU {number}"


def _us(ns: int) -> str:
    sign = "-" if ns < 0 else ""
    return f"{sign}{abs(ns) // 1000}.{abs(ns) % 1000:03d}"


def _named(what: str, process: int, track: int, name: str) -> str:
    return json.dumps({"name": what, "ph": "M", "pid": process, "tid": track, "args": {"name": name}})


def _slice(name: str, kind: str, process: int, track: int, start: int, length: int, args: str) -> str:
    return (
        f'{{"name":{name},"cat":"{kind}","ph":"X","pid":{process},"tid":{track},"ts":{_us(start)},"dur":{_us(length)},'
        f'"args":{{{args}}}}}'
    )


def _arrow(number: int, call: Place, work: Place) -> Iterator[str]:
    for phase, (process, track, time) in (('"s"', call), ('"f","bp":"e"', work)):
        yield (
            f'{{"name":"launch","cat":"launch","ph":{phase},"id":{number},"pid":{process},"tid":{track},"ts":{_us(time)}}}'
        )


def _counted(name: str, process: int, time: int, series: str, value: float) -> str:
    args = json.dumps({series: round(value, 3)})
    return f'{{"name":{json.dumps(name)},"ph":"C","pid":{process},"ts":{_us(time)},"args":{args}}}'
