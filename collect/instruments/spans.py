"""Opens and closes named ranges for whoever listens: NVTX under nsys, record_function under torch.profiler.

Invariant: a range is closed on the thread that opened it, and nothing is emitted where no profiler is attached. Every
emitted range is counted by its path, so that a trace can be held against what the run itself did.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.autograd.profiler as torch_profiler


@dataclass(slots=True)
class Place:
    """A name path and how often a range was opened there."""

    name: str
    count: int = 0
    inside: "dict[str, Place]" = field(default_factory=dict)

    def paths(self, above: str = "") -> Iterator[tuple[str, int]]:
        """(path, count) of this place and all below it; a place that only leads to others is left out."""
        path = f"{above}/{self.name}" if above else self.name
        if self.count:
            yield path, self.count
        for place in self.inside.values():
            yield from place.paths(path)


@dataclass(slots=True)
class _Open:
    place: Place
    record: Any
    is_nvtx: bool


class _Thread(threading.local):
    """The ranges that this thread has open; a thread that the autograd engine owns begins with none."""

    def __init__(self) -> None:
        self.open: list[_Open] = []
        self.root = Place("")
        with _roots_lock:
            _roots.append(self.root)


@dataclass(slots=True)
class _Switches:
    """What the process decides once for all threads."""

    paused: bool = False
    rehearsing: bool = False
    domain: Any = None
    is_domain_known: bool = False


_roots_lock = threading.Lock()
_roots: list[Place] = []
_thread = _Thread()
_switches = _Switches()


def _nvtx_domain() -> Any:
    """The domain whose ranges nsys records, None where no nsys listens.

    python-nvtx 0.2.12 and later asks nvtxDomainIsEnabled, which nsys before 2024.2 lacks, and then records nothing;
    the domain is therefore built by hand. The name is nsys' default domain, so that names stay as they are.
    """
    if not os.environ.get("NVTX_INJECTION64_PATH"):
        return None
    try:
        from nvtx._lib.lib import Domain, DomainHandle
    except ImportError:  # the environment of somebody's script
        return _TorchDomain() if hasattr(torch._C, "_nvtx") else None

    domain = object.__new__(Domain)
    domain.handle = DomainHandle(None)
    domain.__init__(None)
    return domain


class _TorchDomain:
    """The same by torch itself, which can where it is built for CUDA."""

    def get_event_attributes(self, message: str) -> str:
        return message

    def push_range(self, attributes: str) -> None:
        torch.cuda.nvtx.range_push(attributes)

    def pop_range(self) -> None:
        torch.cuda.nvtx.range_pop()


_attributes: dict[str, Any] = {}


def nvtx() -> Any:
    """The domain whose ranges nsys records, built once; None where no nsys listens."""
    if not _switches.is_domain_known:
        _switches.domain, _switches.is_domain_known = _nvtx_domain(), True
    return _switches.domain


def listening() -> bool:
    """Whether a range opened now would be recorded by anyone."""
    return _switches.rehearsing or (
        not _switches.paused and (torch_profiler._is_profiler_enabled or nvtx() is not None)
    )


def pause(is_paused: bool) -> None:
    """Emit nothing until called with False: outside the steps that a run wants to see."""
    _switches.paused = is_paused


@contextmanager
def rehearsed() -> Iterator[None]:
    """Inside, ranges do all their work although no profiler is attached, so that their cost can be measured."""
    _switches.rehearsing = True
    try:
        yield
    finally:
        _switches.rehearsing = False


def push(name: str, number: int | None = None) -> None:
    """Open a range on this thread; the number is part of its text, not of its place.

    The caller asks listening() first, and calls pop() once for each push, on the same thread.
    """
    text = name if number is None else f"{name} {number}"
    above = _thread.open[-1].place if _thread.open else _thread.root
    place = above.inside.get(name)
    if place is None:
        place = above.inside.setdefault(name, Place(name))
    place.count += 1
    domain = nvtx()
    if domain is not None:
        attributes = _attributes.get(text)
        if attributes is None:
            attributes = _attributes.setdefault(text, domain.get_event_attributes(message=text))
        domain.push_range(attributes)
    record = None
    if torch_profiler._is_profiler_enabled or _switches.rehearsing:
        record = torch_profiler.record_function(text)
        record.__enter__()
    _thread.open.append(_Open(place, record, domain is not None))


def pop() -> None:
    """Close the innermost range of this thread."""
    last = _thread.open.pop()
    if last.record is not None:
        last.record.__exit__(None, None, None)
    if last.is_nvtx:
        _switches.domain.pop_range()


def names() -> list[str]:
    """The names of the ranges that this thread has open, outermost first."""
    return [opened.place.name for opened in _thread.open]


def depth() -> int:
    """How many ranges this thread has open."""
    return len(_thread.open)


@contextmanager
def span(name: str, number: int | None = None) -> Iterator[None]:
    """Name what happens inside: `with lorabench.span("loss"):`. Shows in nsys (NVTX) and torch.profiler alike.

    Inside a compiled graph, and where no profiler is attached, it does nothing. A number becomes part of the text
    ("step 3") and the reports group by the name without it.
    """
    if torch.compiler.is_compiling() or not listening():
        yield
        return
    push(name, number)
    level = depth()
    try:
        yield
    finally:
        while depth() >= level:  # what an exception left open inside is closed, too
            pop()


def opened() -> dict[str, int]:
    """How many ranges were opened at each path, over all threads: what a trace of this process must show."""
    counts: dict[str, int] = {}
    for root in list(_roots):
        for place in root.inside.values():
            for path, count in place.paths():
                counts[path] = counts.get(path, 0) + count
    return counts
