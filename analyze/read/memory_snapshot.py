"""Reads snapshots of torch's CUDA caching allocator: torch.cuda.memory._dump_snapshot(), or what _snapshot() returned.

A snapshot is a pickle of dicts, lists, texts and numbers (plain_pickle.py). Parts of it may be one object that is
referred to many times, as stacks are: so what is read is limited by what the file can hold, and no text is made of
anything else.

What is read: the history of allocations (`device_traces`), with the Python frames that asked; the pieces of memory
held at the end (`segments`); and the ranges open meanwhile (`external_annotations`). Sizes are what tensors asked for;
the allocator rounds them up. What lived before the history began is known from what is still there or was freed; it
stands at the start of the recording.
"""

import gzip
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from ...errors import CorruptInputError, UnknownFormatError
from . import plain_pickle
from .staging import Staging

_LEAST_BOMB, _BOMB_RATIO = 64 << 20, 250  # of what gzip expands to
_MOST_FRAMES = 24
_PACKAGES = re.compile(r".*(?:site|dist)-packages/")  # the latter is Debian's
_USED = ("active_allocated",)
_GRAPH_POOL = "graph"  # what _memory_of_graphs.sql knows it by
_NS = 1000  # in a microsecond
# Threads of autograd have no Python frames; one of its own says what they are.
ENGINE = "(autograd engine)"
# The node of the graph that such a thread works at; known only where C++ frames are recorded.
_NODE = re.compile(r"torch::autograd::(?:\w+::)*(\w+)::apply\(")
# Behind the innermost frame of what autocast copies into another type: no Python frame says that it does.
AUTOCAST = "(autocast)"


def read(path: Path, staging: Staging) -> None:
    """Load a snapshot into the staged tables.

    Raises UnknownFormatError for a pickle of something else, CorruptInputError for one that is cut off, damaged or
    that would run code.
    """
    staging.progress.step("snapshot", path.stat().st_size)
    data = _content(path)
    try:
        snapshot = _as_dict(path, plain_pickle.load(data))
    except plain_pickle.NotPlainError as error:
        raise CorruptInputError(f"{path} is not an allocator snapshot: {error}") from error
    most = data.count(b"}") + data.count(b"d")  # operations that make a dict: each entry is one
    del data
    try:
        histories = snapshot.get("device_traces") or []
        annotated = snapshot.get("external_annotations") or []
        _limit(most, [*histories, snapshot["segments"], annotated])
        _limit(most, [segment["blocks"] for segment in snapshot["segments"]])
        stacks = _Stacks()
        segments = [_Segment.of(s, stacks) for s in snapshot["segments"]]
        devices = sorted({s.device for s in segments} | {n for n, history in enumerate(histories) if history})
        recordings = [
            _Recording(device, histories[device] if device < len(histories) else [], segments, stacks)
            for device in devices
        ]
        annotations = list(_annotations(annotated))
        settings = snapshot.get("allocator_settings")
        are_expandable = any(segment.get("is_expandable") is True for segment in snapshot["segments"]) or (
            isinstance(settings, dict) and settings.get("expandable_segments") is True
        )
        _stage_segments(staging, segments)
        _stage_events(staging, [event for recording in recordings for event in recording.events])
        _stage_failures(staging, [failure for recording in recordings for failure in recording.failures])
        _stage_annotations(staging, annotations)
    except (LookupError, TypeError, AttributeError, ValueError, OverflowError, pa.ArrowException) as error:
        raise CorruptInputError(f"{path} is damaged: {type(error).__name__}: {_short(error)}") from error
    if any(history and "time_us" not in history[0] for history in histories):
        staging.set_source("is_timed", False)
        staging.fact("missing", "times", "not recorded", "events are shown in their order, without durations")
    staging.fact("holds", "allocator events", sum(len(history) for history in histories))
    staging.fact("holds", "segments", len(segments))
    if are_expandable:
        staging.fact("about", "allocator: expandable segments", "on")
    staging.fact("missing", "GPU work", "none", "a snapshot of the allocator holds memory alone")
    if not any(histories):
        staging.fact(
            "missing", "history", "no allocations over time",
            "call torch.cuda.memory._record_memory_history() before what is to be seen",
        )  # fmt: skip


def _content(path: Path) -> bytes:
    """The pickle, decompressed. Raises CorruptInputError for damaged gzip and for bombs."""
    with path.open("rb") as file:
        is_gzip = file.read(2) == b"\x1f\x8b"
    if not is_gzip:
        return path.read_bytes()
    most = max(_LEAST_BOMB, _BOMB_RATIO * path.stat().st_size)
    try:
        with gzip.open(path) as packed:
            data = packed.read(most + 1)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise CorruptInputError(f"{path} is not a whole allocator snapshot: {error}") from error
    if len(data) > most:
        raise CorruptInputError(
            f"{path} expands more than {_BOMB_RATIO}-fold; if it is genuine, decompress it with gunzip"
        )
    return data


def _limit(most: int, lists: list[list[Any]]) -> None:
    """Raise ValueError when lists have more entries together than the file has dicts."""
    if sum(map(len, lists)) > most:
        raise ValueError("it refers to the same entries again and again")


def _short(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]


def _number(value: Any) -> int:
    """The value itself. Raises TypeError unless it is an integer."""
    if type(value) is not int:
        raise TypeError(f"a {type(value).__name__} in the place of a number")
    return value


def _text(value: Any) -> str:
    """A text without halves of characters, which a pickle may hold and UTF-8 cannot; none of anything else."""
    return value.encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else ""


def _as_dict(path: Path, found: Any) -> dict[str, Any]:
    """The snapshot; those of torch 1.13 and 2.0 were the list of segments alone."""
    if isinstance(found, list) and found and isinstance(found[0], dict) and "blocks" in found[0]:
        return {"segments": found}
    if isinstance(found, dict) and isinstance(found.get("segments"), list):
        return found
    raise UnknownFormatError(f"{path} is a pickle, but no snapshot of torch.cuda.memory._dump_snapshot()")


@dataclass(frozen=True)
class _Block:
    address: int
    size: int
    requested: int
    is_used: bool
    stack: str | None


@dataclass(frozen=True)
class _Segment:
    device: int
    address: int
    size: int
    stream: int
    pool: str
    knows_requests: bool
    blocks: tuple[_Block, ...]

    @classmethod
    def of(cls, raw: dict[str, Any], stacks: "_Stacks") -> "_Segment":
        address, blocks = _number(raw["address"]), []
        place = address
        for block in raw["blocks"]:
            place = _number(block.get("address", place))  # old ones say only how large blocks are
            size = _number(block["size"])
            last = _last_request(block)
            requested = _number(block.get("requested_size", last.get("real_size", size)))
            is_used = block["state"] in _USED
            stack = stacks.text(block.get("frames") or last.get("frames")) if is_used else None
            blocks.append(_Block(place, size, requested, is_used, stack))
            place += size
        knows = all("requested_size" in block for block in raw["blocks"])
        return cls(
            _number(raw["device"]), address, _number(raw["total_size"]), _number(raw["stream"]),
            _GRAPH_POOL if _is_private(raw) else _text(raw["segment_type"]), knows, tuple(blocks),
        )  # fmt: skip


def _last_request(block: dict[str, Any]) -> dict[str, Any]:
    """What torch 1.13 and 2.0 say of who asked for a block: the latest entry of its history."""
    history = block.get("history")
    return history[0] if isinstance(history, list) and history and isinstance(history[0], dict) else {}


def _is_private(segment: dict[str, Any]) -> bool:
    """Whether it is of a pool of its own, as CUDA graphs have: (0, 0) is the pool of all else."""
    pool = segment.get("segment_pool_id")
    return isinstance(pool, tuple | list) and any(part != 0 for part in pool)


@dataclass(frozen=True)
class _Event:
    device: int
    time: int  # ns
    bytes: int
    address: int
    requested: int  # in total afterwards
    reserved: int
    stack: str | None
    is_before: bool = False


class _Recording:
    """The history of one device as events whose totals end where the snapshot does."""

    def __init__(self, device: int, history: list[dict[str, Any]], segments: list[_Segment], stacks: "_Stacks"):
        self.device, self._stacks = device, stacks
        self.events: list[_Event] = []
        self.failures: list[tuple[int, int, int, int | None, str | None]] = []
        mine = [s for s in segments if s.device == device]
        blocks = {b.address: b for s in mine for b in s.blocks if b.is_used}
        changes, before = self._replay(history, blocks)
        reserved = sum(s.size for s in mine) - sum(step for _, step, *_ in changes)
        requested = sum(size for _, size, _ in before)
        begin = changes[0][0] - 1 if changes else 0
        for address, size, stack in before:
            self.events.append(_Event(device, begin, size, address, requested, reserved, stack, is_before=True))
        for time, step, size, address, stack in changes:
            reserved += step
            if size:
                requested += size
                self.events.append(_Event(device, time, size, address, requested, reserved, stack))

    def _replay(
        self, history: list[dict[str, Any]], blocks: dict[int, _Block]
    ) -> tuple[list[tuple[int, int, int, int, str | None]], list[tuple[int, int, str | None]]]:
        """(time, change of what is reserved, bytes, address, stack) in order, and what was there before all of it."""
        live: dict[int, int] = {}
        changes: list[tuple[int, int, int, int, str | None]] = []
        before: dict[int, tuple[int, str | None]] = {}
        time = None
        for entry in history:
            action, size = entry["action"], _number(entry.get("size", 0))
            address = _number(entry.get("addr", 0))
            stamp = _number(entry.get("time_us", len(changes))) * _NS
            time = stamp if time is None else max(time + 1, stamp)  # in the order of the history
            stack = self._stacks.text(entry.get("frames"))
            if action == "alloc":
                live[address] = size
                changes.append((time, 0, size, address, stack))
            elif action == "free_requested":
                if address not in live:
                    before[address] = (size, None)
                changes.append((time, 0, -live.pop(address, size), address, stack))
            elif action in ("segment_alloc", "segment_map"):
                changes.append((time, size, 0, address, stack))
            elif action in ("segment_free", "segment_unmap"):
                changes.append((time, -size, 0, address, stack))
            elif action == "oom":
                left = entry.get("device_free")
                self.failures.append((self.device, time, size, None if left is None else _number(left), stack))
        kept = [(b.address, b.requested, b.stack) for b in blocks.values() if b.address not in live]
        return changes, [*((address, *known) for address, known in before.items()), *kept]


class _Stacks:
    """Texts of stacks; the one of a list that many entries share is made once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, str | None]] = {}  # with the list, so that no other gets its id

    def text(self, frames: Any) -> str | None:
        """The Python frames, innermost first: `file:line function < …`; None without any."""
        if not isinstance(frames, list) or not frames:
            return None
        if id(frames) not in self._known:
            self._known[id(frames)] = frames, _stack(frames)
        return self._known[id(frames)][1]


def _stack(frames: list[Any]) -> str | None:
    told, is_engine, is_cast, node = [], False, False, None
    for frame in frames:
        if isinstance(frame, dict):
            file, name, line = _text(frame.get("filename")), _text(frame.get("name")), frame.get("line")
            if file.endswith(".py"):
                file = file if "/" in file else file.replace("\\", "/")  # of Windows
                told.append(f"{_PACKAGES.sub('', file)}:{line if type(line) is int else '?'} {name}")
            is_engine |= name.startswith("torch::autograd::Engine::")
            node = node or _NODE.match(name)
            is_cast |= name.startswith("at::autocast::cached_cast")
    if is_cast:
        told[:1] = [" ".join([*told[:1], AUTOCAST])]
    if is_engine:
        told.append(f"{node[1]} {ENGINE}" if node else ENGINE)
    return " < ".join([*told[:_MOST_FRAMES], *(["…"] if len(told) > _MOST_FRAMES else [])]) or None


def _annotations(entries: list[dict[str, Any]]) -> Iterator[tuple[int, str, int, int | None]]:
    """(device, name, begin, end) of each range; an end belongs to the last begin of that name."""
    open_: dict[tuple[int, str], list[int]] = {}
    for entry in entries:
        key, time = (_number(entry["device"]), _text(entry["name"])), _number(entry["time_us"]) * _NS
        if entry["stage"] == "START":
            open_.setdefault(key, []).append(time)
        elif open_.get(key):
            yield *key, open_[key].pop(), time
    for key, begins in open_.items():
        for begin in begins:
            yield *key, begin, None


def _stage_events(staging: Staging, events: list[_Event]) -> None:
    if not events:
        return
    columns = {
        "device": [f"cuda:{e.device}" for e in events],
        "thread_id": pa.array([None if e.is_before else e.device for e in events], pa.int64()),
        "time_ns": [e.time for e in events],
        "bytes": [e.bytes for e in events],
        "address": [e.address for e in events],
        "requested_bytes": [e.requested for e in events],
        "reserved_bytes": [e.reserved for e in events],
        "stack": pa.array([e.stack for e in events], pa.string()),
        "is_before": [e.is_before for e in events],
    }
    _insert(staging, columns, "stack", "staged_memory_event")


def _stage_failures(staging: Staging, failures: list[tuple[int, int, int, int | None, str | None]]) -> None:
    if not failures:
        return
    device, time, size, left, stack = zip(*failures, strict=True)
    columns = {
        "device": [f"cuda:{d}" for d in device], "time_ns": list(time), "requested_bytes": list(size),
        "free_bytes": pa.array(left, pa.int64()), "stack": pa.array(stack, pa.string()),
    }  # fmt: skip
    _insert(staging, columns, "stack", "out_of_memory_event")


def _stage_segments(staging: Staging, segments: list[_Segment]) -> None:
    if not segments:
        return
    free = [[b.size for b in s.blocks if not b.is_used] for s in segments]
    used = [[b for b in s.blocks if b.is_used] for s in segments]
    requested = [
        sum(b.requested for b in blocks) if s.knows_requests else None for s, blocks in zip(segments, used, strict=True)
    ]
    columns = {
        "device": [f"cuda:{s.device}" for s in segments], "address": [s.address for s in segments],
        "stream_id": [s.stream for s in segments], "pool": [s.pool for s in segments],
        "reserved_bytes": [s.size for s in segments], "allocated_bytes": [sum(b.size for b in u) for u in used],
        "requested_bytes": pa.array(requested, pa.int64()), "largest_free_bytes": [max(f, default=0) for f in free],
        "free_block_cnt": [len(f) for f in free],
    }  # fmt: skip
    _insert(staging, columns, None, "memory_segment")


def _stage_annotations(staging: Staging, annotations: list[tuple[int, str, int, int | None]]) -> None:
    """Ranges of a thread for each device: a snapshot does not say which thread opened them."""
    if not annotations:
        staging.name_ranges("select null::varchar")
        return
    device, name, begin, end = zip(*annotations, strict=True)
    columns = {
        "thread_id": list(device), "name": pa.array(name, pa.string()), "start_ns": list(begin),
        "end_ns": pa.array(end, pa.int64()), "position": list(range(len(name))),
    }  # fmt: skip
    batch = pa.table(columns)
    staging.database.connection.register("batch", batch)
    staging.name_ranges("select name from batch")
    staging.load("snapshot_range", "staged_range", batch)
    staging.load("snapshot_thread", "thread", batch)


def _insert(staging: Staging, columns: dict[str, Any], text: str | None, into: str) -> None:
    """Append rows of the source, a column of texts as that of their names."""
    connection = staging.database.connection
    connection.register("batch", pa.table(columns))
    if text is None:
        staging.insert("select reading.source_id, batch.* from batch cross join reading", into)
    else:
        staging.intern(f"select {text} from batch")
        staging.insert(
            f"""select reading.source_id, batch.* exclude ({text}), staged_name.name_id as {text}_id
            from batch cross join reading left join staged_name on staged_name.text = batch.{text}""",
            into,
        )
    connection.unregister("batch")
