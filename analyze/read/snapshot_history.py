"""The history of a snapshot of torch's CUDA caching allocator, and the pieces of memory that it ends with.

A block that another stream works on still when its tensor has gone (Tensor.record_stream) is freed when that stream is
done with it, as nobody can have it before: the history has `free_requested` and, later, `free_completed`.
"""

import re
from dataclasses import dataclass
from typing import Any, NamedTuple

_MOST_FRAMES = 24
_PACKAGES = re.compile(r".*(?:site|dist)-packages/")  # the latter is Debian's
_PENDING = "active_pending_free"
_USED = ("active_allocated", _PENDING)
_GRAPH_POOL = "graph"  # what _memory_of_graphs.sql knows it by
NS = 1000  # in a microsecond
# Threads of autograd have no Python frames; one of its own says what they are.
ENGINE = "(autograd engine)"
# The node of the graph that such a thread works at; known only where C++ frames are recorded.
_NODE = re.compile(r"torch::autograd::(?:\w+::)*(\w+)::apply\(")
# Behind the innermost frame of what autocast copies into another type: no Python frame says that it does.
AUTOCAST = "(autocast)"


def as_number(value: Any) -> int:
    """The value itself. Raises TypeError unless it is an integer."""
    if type(value) is not int:
        raise TypeError(f"a {type(value).__name__} in the place of a number")
    return value


def as_text(value: Any) -> str:
    """A text without halves of characters, which a pickle may hold and UTF-8 cannot; none of anything else."""
    return value.encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else ""


@dataclass(frozen=True)
class Block:
    """One block of a piece of memory; stack: who asked for it, where it is in use."""

    address: int
    size: int
    requested: int
    is_used: bool
    stack: str | None


@dataclass(frozen=True)
class Segment:
    """A piece of memory that the allocator holds of a device, and its blocks at the end."""

    device: int
    address: int
    size: int
    stream: int
    pool: str
    knows_requests: bool
    blocks: tuple[Block, ...]

    @classmethod
    def of(cls, raw: dict[str, Any], stacks: "Stacks") -> "Segment":
        """Of an entry of `segments`. Raises LookupError or TypeError for what is none."""
        address, blocks = as_number(raw["address"]), []
        place = address
        for block in raw["blocks"]:
            place = as_number(block.get("address", place))  # old ones say only how large blocks are
            size = as_number(block["size"])
            last = _last_request(block)
            requested = as_number(block.get("requested_size", last.get("real_size", size)))
            is_used = block["state"] in _USED
            stack = stacks.text(block.get("frames") or last.get("frames")) if is_used else None
            blocks.append(Block(place, size, requested, is_used, stack))
            place += size
        knows = all("requested_size" in block for block in raw["blocks"])
        return cls(
            as_number(raw["device"]), address, as_number(raw["total_size"]), as_number(raw["stream"]),
            _GRAPH_POOL if _is_private(raw) else as_text(raw["segment_type"]), knows, tuple(blocks),
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
class Failure:
    """An allocation for which there was no room; what the device had left is None where that is not recorded."""

    device: int
    time: int  # ns
    bytes: int
    left: int | None
    reserved: int
    stack: str | None


@dataclass(frozen=True)
class Event:
    """An allocation, or with negative bytes a free; stack: who asked for it."""

    device: int
    time: int  # ns
    bytes: int
    address: int
    requested: int  # in total afterwards
    reserved: int
    stack: str | None
    is_before: bool = False


class Recording:
    """The history of one device as events whose totals end where the snapshot does."""

    def __init__(self, device: int, history: list[dict[str, Any]], segments: list[Segment], stacks: "Stacks"):
        self.device, self._stacks = device, stacks
        mine = [s for s in segments if s.device == device]
        blocks = {b.address: b for s in mine for b in s.blocks if b.is_used}
        changes, before = self._replay(history, blocks)
        reserved = sum(s.size for s in mine) - sum(change.reserved for change in changes)
        requested = sum(change.bytes for change in before)
        self.events = [
            Event(device, change.time, change.bytes, change.address, requested, reserved, change.stack, is_before=True)
            for change in before
        ]
        self.failures: list[Failure] = []
        for change in changes:
            reserved += change.reserved
            if change.is_failure:
                self.failures.append(Failure(device, change.time, change.bytes, change.left, reserved, change.stack))
            elif change.bytes:
                requested += change.bytes
                self.events.append(
                    Event(device, change.time, change.bytes, change.address, requested, reserved, change.stack)
                )

    def _replay(
        self, history: list[dict[str, Any]], blocks: dict[int, Block]
    ) -> tuple[list["_Change"], list["_Change"]]:
        """What changed, in order, and what was there before all of it."""
        live: dict[int, int] = {}
        changes: list[_Change] = []
        before: dict[int, int] = {}
        time = None
        late = _late_frees(history, blocks)
        freed_at = {by: request for request, by in late.items() if by is not None}
        for place, entry in enumerate(history):
            action, size = entry["action"], as_number(entry.get("size", 0))
            address = as_number(entry.get("addr", 0))
            stamp = as_number(entry.get("time_us", len(changes))) * NS
            time = stamp if time is None else max(time + 1, stamp)  # in the order of the history
            stack = self._stacks.text(entry.get("frames"))
            if action == "alloc":
                live[address] = size
                changes.append(_Change(time, size, address, stack))
            elif (action == "free_requested" and place not in late) or place in freed_at:
                if place in freed_at:
                    asked = history[freed_at[place]]
                    size, stack = as_number(asked.get("size", 0)), self._stacks.text(asked.get("frames"))
                if address not in live:
                    before[address] = size
                changes.append(_Change(time, -live.pop(address, size), address, stack))
            elif action in ("segment_alloc", "segment_map"):
                changes.append(_Change(time, 0, address, stack, reserved=size))
            elif action in ("segment_free", "segment_unmap"):
                changes.append(_Change(time, 0, address, stack, reserved=-size))
            elif action == "oom":
                left = entry.get("device_free")
                known = None if left is None else as_number(left)
                changes.append(_Change(time, size, address, stack, is_failure=True, left=known))
        begin = changes[0].time - 1 if changes else 0
        kept = [_Change(begin, b.requested, b.address, b.stack) for b in blocks.values() if b.address not in live]
        return changes, [*(_Change(begin, size, address, None) for address, size in before.items()), *kept]


class _Change(NamedTuple):
    time: int  # ns
    bytes: int  # of what is in use; of a failure what was asked for
    address: int
    stack: str | None
    reserved: int = 0  # by how much more is held of the device
    is_failure: bool = False
    left: int | None = None


def _late_frees(history: list[dict[str, Any]], blocks: dict[int, Block]) -> dict[int, int | None]:
    """The entries that ask for a free which comes later, and which entry it is; None where the history ends before.

    entry    3: free_requested A   4: free_completed A   5: free_requested B   6: alloc C   7: free_completed B
    found                                                5: 7
    """
    asked: dict[int, int] = {}
    found: dict[int, int | None] = {}
    for place, entry in enumerate(history):
        address = as_number(entry.get("addr", 0))
        if entry["action"] == "free_requested":
            asked[address] = place
        elif entry["action"] == "free_completed" and asked.get(address, place - 1) < place - 1:
            found[asked.pop(address)] = place
        elif entry["action"] in ("free_completed", "alloc"):  # before it is given away it was free, said or not
            asked.pop(address, None)
    return found | {request: None for address, request in asked.items() if address in blocks}


class Stacks:
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
            file, name, line = as_text(frame.get("filename")), as_text(frame.get("name")), frame.get("line")
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
