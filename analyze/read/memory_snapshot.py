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
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from ...errors import CorruptInputError, UnknownFormatError
from . import plain_pickle
from .snapshot_history import NS, Event, Failure, Recording, Segment, Stacks, as_number, as_text
from .staging import Staging

_LEAST_BOMB, _BOMB_RATIO = 64 << 20, 250  # of what gzip expands to


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
        stacks = Stacks()
        segments = [Segment.of(s, stacks) for s in snapshot["segments"]]
        devices = sorted({s.device for s in segments} | {n for n, history in enumerate(histories) if history})
        recordings = [
            Recording(device, histories[device] if device < len(histories) else [], segments, stacks)
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
    staging.fact("missing", "GPU work", "none", "a snapshot of the allocator holds only memory")
    if not any(histories):
        staging.fact(
            "missing", "history", "no allocations over time",
            "call torch.cuda.memory._record_memory_history() before what is to be recorded",
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


def _as_dict(path: Path, found: Any) -> dict[str, Any]:
    """The snapshot; those of torch 1.13 and 2.0 were the list of segments alone."""
    if isinstance(found, list) and found and isinstance(found[0], dict) and "blocks" in found[0]:
        return {"segments": found}
    if isinstance(found, dict) and isinstance(found.get("segments"), list):
        return found
    raise UnknownFormatError(f"{path} is a pickle, but no snapshot of torch.cuda.memory._dump_snapshot()")


def _annotations(entries: list[dict[str, Any]]) -> Iterator[tuple[int, str, int, int | None]]:
    """(device, name, begin, end) of each range; an end belongs to the last begin of that name."""
    open_: dict[tuple[int, str], list[int]] = {}
    for entry in entries:
        key, time = (as_number(entry["device"]), as_text(entry["name"])), as_number(entry["time_us"]) * NS
        if entry["stage"] == "START":
            open_.setdefault(key, []).append(time)
        elif open_.get(key):
            yield *key, open_[key].pop(), time
    for key, begins in open_.items():
        for begin in begins:
            yield *key, begin, None


def _stage_events(staging: Staging, events: list[Event]) -> None:
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


def _stage_failures(staging: Staging, failures: list[Failure]) -> None:
    if not failures:
        return
    columns = {
        "device": [f"cuda:{f.device}" for f in failures], "time_ns": [f.time for f in failures],
        "requested_bytes": [f.bytes for f in failures], "reserved_bytes": [f.reserved for f in failures],
        "free_bytes": pa.array([f.left for f in failures], pa.int64()),
        "stack": pa.array([f.stack for f in failures], pa.string()),
    }  # fmt: skip
    _insert(staging, columns, "stack", "out_of_memory_event")


def _stage_segments(staging: Staging, segments: list[Segment]) -> None:
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
