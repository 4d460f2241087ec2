"""Staged rows of one source as arrays, in the order of the staged tables; NULL as NONE unless said otherwise."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...vocabulary import OP_KERNEL, RANGE_ANNOTATION, RANGE_OPERATOR, RANGE_PYTHON
from ..attribute.attribution import Launches
from ..attribute.counters import LEAST_NUMBERS, counters
from ..attribute.intervals import NONE, Bools, Ints, distinct
from ..attribute.launches import Calls, Operations
from ..attribute.ranges import Ranges
from ..read.staging import Staging
from ..read.waiting import integers, is_null, numbered_texts
from ..store import arrow_functions as arrow


@dataclass(frozen=True)
class Threads:
    """All threads of the source, in order of their ids."""

    id: Ints
    process: Ints
    work_process: Ints  # the process whose GPU work the thread's calls launch
    is_main: Bools

    def of(self, values: Ints, thread: Ints) -> Ints:
        """Of one of the columns the value of each thread in an array of their ids."""
        if _are_one(values):
            return np.broadcast_to(values[0], thread.shape)
        return values[np.searchsorted(self.id, thread)]


@dataclass(frozen=True)
class StagedRanges:
    """Ranges sorted by track, start and falling end.

    staged     0: backward   1: forward   2: step        `order` is 2 1 0: the place in the staged table
    sorted     step [ forward ... backward ... ]         of each range in `ranges`
    """

    ranges: Ranges
    order: Ints
    threads: Ints  # the thread of each of the first tracks
    kind: Ints  # of each sorted range, an index into `kinds`
    kinds: list[str]
    is_unfinished: Bools  # of each staged range


def fetch_threads(staging: Staging) -> Threads:
    """The threads that readers and the linking of launches know."""
    staging.create_from("work_thread", "work_thread")
    t = staging.database.columns("from work_thread order by thread_id")
    return Threads(t["thread_id"], t["process_id"], t["work_process_id"], t["is_main"])


def fetch_calls(staging: Staging, threads: Threads) -> Calls:
    """The staged calls of the CUDA API."""
    c = staging.columns("staged_api_call")
    thread = integers(c["thread_id"], NONE)
    return Calls(
        process=threads.of(threads.work_process, thread),
        thread=thread,
        correlation=integers(c["correlation_id"], NONE),
        start=integers(c["start_ns"], NONE),
        end=integers(c["end_ns"], NONE),
        event_class=integers(c["event_class"], 0),
    )


def fetch_operations(staging: Staging) -> Operations:
    """The staged operations of the GPU."""
    o = staging.columns("staged_gpu_op")
    return Operations(
        integers(o["process_id"], 0), integers(o["correlation_id"], NONE), integers(o["device_id"], NONE),
        integers(o["stream_id"], NONE), integers(o["start_ns"], NONE), integers(o["end_ns"], NONE),
        arrow.is_equal(o["kind"], OP_KERNEL).to_numpy(),
    )  # fmt: skip


def fetch_ranges(staging: Staging, threads: Threads, calls: Calls) -> StagedRanges:
    """The staged ranges. One without an end ends with the last range or call of its thread.

    Tracks: a range encloses what lies within it on the same thread; Python frames are a hierarchy of their own, and a
    range that another thread closes encloses nothing:

        track 0 … n-1      the n threads
              n … 2n-1     their Python frames
              2n …         one for each range that another thread closes
    """
    r = staging.columns("staged_range")
    tracked, thread = distinct(integers(r["thread_id"], NONE))
    of_thread = np.searchsorted(threads.id, tracked)
    kind, kinds = numbered_texts(r["kind"])
    start, end = integers(r["start_ns"], NONE), integers(r["end_ns"], NONE)
    is_unfinished = is_null(r["end_ns"])
    if is_unfinished.any():
        end = np.where(is_unfinished, start, end)
        end[is_unfinished] = _last_events(tracked, thread, end, calls)[thread[is_unfinished]]
    is_crossing = ~is_null(r["end_thread_id"])
    is_python = _is(kind, kinds, RANGE_PYTHON)
    track = np.where(is_python, len(tracked) + thread, thread)
    track[is_crossing] = 2 * len(tracked) + np.arange(np.count_nonzero(is_crossing))
    text, is_annotation = integers(r["text_id"], NONE), _is(kind, kinds, RANGE_ANNOTATION)
    _name_counters(staging, text[is_annotation], thread[is_annotation], start[is_annotation], end[is_annotation])
    order = np.lexsort((integers(r["position"], NONE), -end, start, track))
    ranges = Ranges(
        track=track[order],
        process=_by_index(threads.process[of_thread], thread[order]),
        start=start[order],
        end=end[order],
        name=_names_of_texts(staging)[text[order]],
        sequence=integers(r["sequence_number"], NONE)[order],
        is_backward=(integers(r["is_backward"], 0) > 0)[order],
        is_annotation=is_annotation[order],
        is_python=is_python[order],
        is_operator=_is(kind, kinds, RANGE_OPERATOR)[order],
        is_main_thread=threads.is_main[of_thread][thread[order]],
        thread_track_cnt=len(tracked),
    )
    return StagedRanges(ranges, order, tracked, kind[order], kinds, is_unfinished)


def launches(threads: Threads, tracked: Ints, calls: Calls, owners: Ints) -> Launches:
    """The calls that own GPU work, each with the track of its thread; `owners` are their places among the calls."""
    thread = calls.thread[owners]
    track = np.searchsorted(tracked, thread)
    known = track < len(tracked)
    known[known] = tracked[track[known]] == thread[known]
    process = threads.of(threads.process, thread)
    return Launches(process, np.where(known, track, NONE), calls.start[owners], calls.end[owners])


def _name_counters(staging: Staging, text: Ints, thread: Ints, start: Ints, end: Ints) -> None:
    """Give annotations whose names differ in a counter alone one name; the columns are those of all annotations."""
    run = staging.database.connection.execute
    if staging.scalar("select count(*) from range_name where not is_operator") < LEAST_NUMBERS or not text.size:
        return
    staging.create_from("numbered_name", "numbered_name")
    numbered = staging.database.columns("select text_id, family, place from numbered_name")
    row = np.full(max(int(numbered["text_id"].max(initial=NONE)), int(text.max())) + 1, NONE, dtype=np.int64)
    row[numbered["text_id"]] = np.arange(len(numbered["text_id"]))
    row = row[text]
    used = np.flatnonzero(row >= 0)
    family, place = numbered["family"][row[used]], numbered["place"][row[used]]
    found = np.flatnonzero(counters(family, place, thread[used], start[used], end[used]))
    shared = f"from numbered_name where family in ({', '.join(map(str, found.tolist()))})"
    if found.size:
        staging.intern(f"select name {shared}")
        run(
            f"""update range_name set name_id = staged_name.name_id
            from (select text_id, name {shared}) as counted
            join staged_name on staged_name.text = counted.name
            where range_name.text_id = counted.text_id"""
        )
    run("drop table numbered_name")


def _names_of_texts(staging: Staging) -> Ints:
    """The name of each text of a range: what it shares with the other calls."""
    known = staging.database.columns("select text_id, name_id from range_name")
    names = np.full(int(known["text_id"].max(initial=NONE)) + 1, NONE, dtype=np.int64)
    names[known["text_id"]] = known["name_id"]
    return names


def _are_one(values: Ints) -> bool:
    return bool(values.size and (values == values[0]).all())


def _by_index(values: Ints, index: Ints) -> Ints:
    """values[index], not to be written to: one for all is in memory once."""
    return np.broadcast_to(values[0], index.shape) if _are_one(values) else values[index]


def _is(number: Any, known: list[str], text: str) -> Any:
    """Where a column of numbered texts has one of them."""
    return np.array([t == text for t in known], dtype=bool)[number] if known else np.zeros(len(number), dtype=bool)


def _last_events(threads: Ints, thread: Ints, end: Ints, calls: Calls) -> Ints:
    """When the last range or call of each thread ends; `thread` is the place of a range's thread."""
    last = np.full(len(threads), np.iinfo(np.int64).min)
    np.maximum.at(last, thread, end)
    place = np.minimum(np.searchsorted(threads, calls.thread), len(threads) - 1)
    mine = threads[place] == calls.thread
    np.maximum.at(last, place[mine], calls.end[mine])
    return last
