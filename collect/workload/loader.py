"""How input gets to the step: made when it is asked for, or ahead of it by processes of their own.

    none        step |--make 0--|train 0|--make 1--|train 1|--make 2--|train 2|
    2 workers   0    |--make 0--|--make 2--|--make 4--|          each draws all, so that the sequences are those of one
                1    |--make 1--|--make 3--|                     process, and makes every second of them
                step            |train 0|  |train 1|train 2|

The processes are forked when the run begins, before a profiler does; they end with the one that trains. In warm-up they
make nothing ahead: what lay ready would feed a short run to its end, and nobody would see that they are too slow.
"""

import ctypes
import multiprocessing
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from .data import Batch, joined

_PR_SET_PDEATHSIG = 1
_AHEAD = 2  # micro steps that each worker makes ahead, as torch's DataLoader does by default
_PAUSE_S = 0.0005  # between looks of a worker that may not go ahead yet
_FOR_EVER = 2**62
Own = Callable[[Batch], Batch]


class Batches(Protocol):
    """The batches of one adapter, one after another for ever."""

    def next(self) -> Batch:
        """The next one."""

    def skip(self) -> None:
        """Go on as if the next one had been made."""


class Slow:
    """Batches that take longer to make, as from a slow disk: for tests and demonstrations of a slow loader."""

    def __init__(self, batches: Batches, delay_ms: int):
        self._batches, self._delay_s = batches, delay_ms / 1e3

    def next(self) -> Batch:
        """The next batch, late."""
        time.sleep(self._delay_s)
        return self._batches.next()

    def skip(self) -> None:
        """Go on, which takes no longer."""
        self._batches.skip()


class Padded:
    """Batches whose sequences are as long as a multiple of so many tokens."""

    def __init__(self, batches: Batches, multiple: int):
        self._batches, self._multiple = batches, multiple

    def next(self) -> Batch:
        """The next batch, padded."""
        return self._batches.next().padded(self._multiple)

    def skip(self) -> None:
        """Go on, which pads nothing."""
        self._batches.skip()


def late(streams: dict[str, Any], delay_ms: int) -> dict[str, Batches]:
    """The streams, each batch so many milliseconds later."""
    return {name: Slow(stream, delay_ms) for name, stream in streams.items()} if delay_ms else streams


@dataclass(frozen=True)
class Loaded:
    """What a micro step trains: rows of one or more adapters as one batch, on the CPU.

    `tokens` are those of each adapter's whole batch, (computed, non-padding, trained), with the padding that it gets
    beside longer ones; `rows` those of it that this process computes, and `shares` how much of its losses: all, unless
    it shares the batch with others.
    """

    adapters: tuple[str, ...]
    batch: Batch
    tokens: tuple[tuple[int, int, int], ...]
    rows: tuple[int, ...]
    shares: tuple[float, ...]
    row_cnt: int  # of the whole batches
    made_ns: int  # how long it took to make

    def pin_memory(self) -> "Loaded":
        """The same in pinned memory; DataLoader calls it by this name."""
        return replace(self, batch=self.batch.pinned())


def load(streams: Mapping[str, Batches], adapters: Sequence[str], own: Own = lambda batch: batch) -> Loaded:
    """The next batch of each adapter, put together; `own` is what this process computes of one."""
    start = time.perf_counter_ns()
    batches = [streams[name].next() for name in adapters]
    parts = [own(batch) for batch in batches]
    union = joined(parts)
    tokens = tuple((batch.rows * union.input_ids.shape[1], *batch.tokens()[1:]) for batch in batches)
    return Loaded(
        tuple(adapters), union, tokens, tuple(part.rows for part in parts),
        tuple(_share(part, batch) for part, batch in zip(parts, batches, strict=True)),
        sum(batch.rows for batch in batches), time.perf_counter_ns() - start,
    )  # fmt: skip


def _share(own: Batch, whole: Batch) -> float:
    return 1.0 if own is whole else own.loss_cnt() / max(1, whole.loss_cnt())


class Ahead:
    """Workers that make what the micro steps will ask for, in the order in which they will."""

    def __init__(self, streams: Mapping[str, Batches], order: Iterator[Sequence[str]], count: int, pin: bool):
        """`order` says whose batches each micro step takes, for ever. Nothing is made ahead until go() is called."""
        self._asked = multiprocessing.get_context("fork").RawValue("q", 0)  # micro steps that may be made
        made = _Made(streams, order, self._asked)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about more workers than cores, and about forking beside torch's threads
            loader = DataLoader(
                made, batch_size=None, num_workers=count, prefetch_factor=_AHEAD, pin_memory=pin, collate_fn=_as_it_is,
                worker_init_fn=_end_with_parent, multiprocessing_context="fork",
                generator=torch.Generator(),  # or it would draw its seed from the numbers that dropout draws from
            )  # fmt: skip
            self._made: Any = iter(loader)

    def next(self, adapters: Sequence[str]) -> Loaded:
        """What the next micro step trains."""
        self._asked.value += 1
        found: Loaded = next(self._made)
        if found.adapters != tuple(adapters):
            raise RuntimeError(f"the loader made batches of {found.adapters} where {tuple(adapters)} are trained")
        return found

    def go(self) -> None:
        """Make ahead from now on."""
        self._asked.value = _FOR_EVER

    def close(self) -> None:
        """End the workers, those as well that wait until they may go ahead."""
        self.go()
        self._made._shutdown_workers()


class _Made(IterableDataset[Loaded]):
    """What a worker makes: of N every N-th."""

    def __init__(self, streams: Mapping[str, Batches], order: Iterator[Sequence[str]], asked: Any):
        self._streams, self._order, self._asked = streams, order, asked

    def __iter__(self) -> Iterator[Loaded]:
        worker = get_worker_info()
        assert worker is not None
        for number, adapters in enumerate(self._order):
            if number % worker.num_workers == worker.id:
                while number >= self._asked.value:
                    time.sleep(_PAUSE_S)
                yield load(self._streams, adapters)
                continue
            for name in adapters:
                self._streams[name].skip()


def _as_it_is(loaded: Any) -> Any:
    return loaded


def _end_with_parent(_: int) -> None:
    """Have the kernel end this worker with the process that trains, however that ends."""
    if sys.platform == "linux":
        parent = os.getppid()
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)
