"""Completes the model: staged rows in, launches linked and ranges attributed, the tables of sql/0_tables out.

One source at a time. Arrays keep the order of the staged tables, so that what is computed here is joined back by
position; ids are dense, in order of thread and time, and continue where the source before ended.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import CorruptInputError
from ..vocabulary import OP_KERNEL, OP_MEMCPY, OP_MEMSET, RANGE_ANNOTATION, RANGE_OPERATOR, RANGE_PYTHON, RULES
from . import allocations, chains
from .attribution import Attribution, Launches, PathSets, attribute, path_sets
from .intervals import NONE, Ints, distinct, slices, take
from .launches import Calls, Launched, Operations, Work, link
from .measures import Instances, busy_by_path, by_path, by_range, by_set
from .ranges import Ranges
from .reach import Reach
from .staging import Staging, moved_columns
from .waiting import integers, is_null, numbered_texts

_WRITTEN_AT_ONCE = 1 << 20  # operations
_MOST_NS = 1 << 61
PATH_TEXT_LIMIT = 2000  # characters; a path of thousands of nested names is cut from the left


def complete(staging: Staging) -> None:
    """Fill range, api_call, gpu_op, memory_event, attribution, name and the tables of paths from what is staged."""
    _Completion(staging).run()


@dataclass
class _Columns:
    """Columns of a staged table as plain integer arrays, NULL as NONE unless the query says otherwise."""

    arrays: dict[str, Any]

    def __getattr__(self, name: str) -> Any:
        return self.arrays[name]


class _Completion:
    """The steps of one source, in order; each leaves its rows in the database."""

    def __init__(self, staging: Staging):
        self.staging = staging
        self.run_sql = staging.database.connection.execute
        self.first: dict[str, int] = {}  # the source's first key, by the name of its column

    def run(self) -> None:
        self.staging.progress.step("launches and ranges")
        self.staging.create_from("work_thread", "work_thread")
        self.threads = self._fetch("from work_thread order by thread_id")
        calls, operations = self._fetch_calls(), self._fetch_operations()
        ranges, order, threads = self._fetch_ranges(calls)
        call, is_duplicate = link(calls, operations)
        self._require_sums(ranges, calls, operations, call)
        calls, operations = calls.without_keys(), operations.without_keys()
        self._write_calls(is_duplicate)
        owners, launch = distinct(call)
        if owners.size and owners[0] == NONE:
            owners, launch = owners[1:], launch - 1
        launched = Launched(calls, operations, call, launch)
        found = attribute(ranges, self._launches(threads, calls, owners))
        if found.given_up_cnt:
            self.staging.fact(
                "lost", "ranges that overlap partially", found.given_up_cnt,
                "launches lie in so many that only the innermost of them and those around it count them",
            )  # fmt: skip
        del calls, operations, owners
        self._write_ranges(ranges, order, found)
        allocations.write(self.staging, ranges, found, threads, self.first["range_id"])
        instances = Instances(found.path, ranges.start, ranges.end, found.covered, self.is_unfinished[order])
        del ranges, order  # arrays of the whole trace: what follows needs the memory
        sets = path_sets(found)
        self._write_sets(found, sets)
        self._write_operations(launched, found, sets.of_launch)
        work, launch, devices = self._work(launched)
        set_of, reach = take(sets.of_launch, launch), found.reach
        del launched, call, found
        self._write_measures(work, launch, reach, instances)
        del launch, reach, instances
        self._write_work_of_sets(work, set_of, sets, devices)
        del set_of, sets
        chains.write(self.staging, work, self.first["gpu_op_id"])
        del work
        self._write_names()

    def _require_sums(self, ranges: Ranges, calls: Calls, operations: Operations, call: Ints) -> None:
        """Raise CorruptInputError when times add up to more than 63 bits hold: an event years away from the others."""
        latency = operations.start - take(calls.start, call)
        lengths = (
            ranges.end - ranges.start, calls.end - calls.start, operations.end - operations.start, latency[call >= 0]
        )  # fmt: skip
        for length in lengths:
            if np.abs(length).sum(dtype=np.float64) > _MOST_NS:
                ((name,),) = self.run_sql("select name from source semi join reading using (source_id)").fetchall()
                raise CorruptInputError(
                    f"{name}: its times add up to over 70 years: some are wrong, or on another clock than the others"
                )

    def _fetch(self, statement: str) -> _Columns:
        return _Columns(self.run_sql(statement).fetchnumpy())

    def _next_id(self, table: str) -> int:
        return int(self.staging.scalar(f"select count(*) from {table}"))

    def _fetch_calls(self) -> Calls:
        c = self.staging.columns("staged_api_call")
        thread = integers(c["thread_id"], NONE)
        return Calls(
            process=self._of_threads(self.threads.work_process_id, thread),
            thread=thread,
            correlation=integers(c["correlation_id"], NONE),
            start=integers(c["start_ns"], NONE),
            end=integers(c["end_ns"], NONE),
            event_class=integers(c["event_class"], 0),
        )

    def _fetch_operations(self) -> Operations:
        o = self.staging.columns("staged_gpu_op")
        return Operations(
            integers(o["process_id"], 0), integers(o["correlation_id"], NONE), integers(o["device_id"], NONE),
            integers(o["stream_id"], NONE), integers(o["start_ns"], NONE), integers(o["end_ns"], NONE),
            pc.equal(o["kind"], OP_KERNEL).to_numpy(),
        )  # fmt: skip

    def _fetch_ranges(self, calls: Calls) -> tuple[Ranges, Ints, Ints]:
        """Sorted ranges, the place of each in the staged table, and the threads by track."""
        r = self.staging.columns("staged_range")
        threads, thread = distinct(integers(r["thread_id"], NONE))
        of_thread = np.searchsorted(self.threads.thread_id, threads)
        kind, kinds = numbered_texts(r["kind"])
        start, end = integers(r["start_ns"], NONE), integers(r["end_ns"], NONE)
        self.is_unfinished = is_null(r["end_ns"])
        if self.is_unfinished.any():
            end = np.where(self.is_unfinished, start, end)
            end[self.is_unfinished] = _last_events(threads, thread, end, calls)[thread[self.is_unfinished]]
        is_crossing = ~is_null(r["end_thread_id"])
        is_python = _is(kind, kinds, RANGE_PYTHON)
        track = np.where(is_python, len(threads) + thread, thread)
        track[is_crossing] = 2 * len(threads) + np.arange(np.count_nonzero(is_crossing))
        order = np.lexsort((integers(r["position"], NONE), -end, start, track))
        self.range_kind, self.range_kinds = kind[order], kinds
        ranges = Ranges(
            track=track[order],
            process=_by_index(self.threads.process_id[of_thread], thread[order]),
            start=start[order],
            end=end[order],
            name=self._range_names()[integers(r["text_id"], NONE)[order]],
            sequence=integers(r["sequence_number"], NONE)[order],
            is_backward=(integers(r["is_backward"], 0) > 0)[order],
            is_annotation=_is(kind, kinds, RANGE_ANNOTATION)[order],
            is_python=is_python[order],
            is_operator=_is(kind, kinds, RANGE_OPERATOR)[order],
            is_main_thread=self.threads.is_main[of_thread][thread[order]],
            thread_track_cnt=len(threads),
        )
        return ranges, order, threads

    def _range_names(self) -> Ints:
        """The name of each text: what it shares with the other calls."""
        known = self._fetch("select text_id, name_id from range_name")
        names = np.full(int(known.text_id.max(initial=NONE)) + 1, NONE, dtype=np.int64)
        names[known.text_id] = known.name_id
        return names

    def _launches(self, threads: Ints, calls: Calls, owners: Ints) -> Launches:
        thread = calls.thread[owners]
        track = np.searchsorted(threads, thread)
        known = track < len(threads)
        known[known] = threads[track[known]] == thread[known]
        process = self._of_threads(self.threads.process_id, thread)
        return Launches(process, np.where(known, track, NONE), calls.start[owners], calls.end[owners])

    def _of_threads(self, values: Ints, thread: Ints) -> Ints:
        """Of a column of `threads` the value of each thread in an array of their ids."""
        if _are_one(values):
            return np.broadcast_to(values[0], thread.shape)
        return values[np.searchsorted(self.threads.thread_id, thread)]

    def _write_calls(self, is_duplicate: Any) -> None:
        self.first["api_call_id"] = self._next_id("api_call")
        ids = np.arange(len(is_duplicate)) + self.first["api_call_id"]
        self.staging.append("api_call", [{"api_call_id": ids, "is_duplicate": is_duplicate}])

    def _write_ranges(self, ranges: Ranges, order: Ints, found: Attribution) -> None:
        self.first |= {"range_id": self._next_id("range"), "path_id": self._next_id("range_path")}
        unsorted = np.empty_like(order)
        unsorted[order] = np.arange(len(order))
        computed = {
            "range_id": unsorted + self.first["range_id"],
            "end_ns": ranges.end[unsorted],
            "name_id": ranges.name[unsorted],
            "is_unfinished": self.is_unfinished,
            "covered_ns": found.covered[unsorted],
            "parent_id": _ids(found.reach.tree.parent[unsorted], self.first["range_id"]),
            "depth": found.reach.depth[unsorted],
            "path_id": found.path[unsorted] + self.first["path_id"],
        }
        self.staging.append("range", [computed])
        self._write_paths(found)

    def _write_paths(self, found: Attribution) -> None:
        paths = found.paths
        texts = dict(self.run_sql("select name_id, text from staged_name semi join range using (name_id)").fetchall())
        kind = [self.range_kinds[number] for number in self.range_kind[paths.example]]
        columns = {
            "path_id": np.arange(len(paths.name)),
            "parent_path_id": _ids(paths.parent, self.first["path_id"]),
            "depth": paths.depth,
            "kind": pa.array(kind, pa.string()),
            "name_id": paths.name,
            "path": pa.array(_path_texts(paths.parent, [texts[n] for n in paths.name.tolist()], kind), pa.string()),
        }
        self._write("range_path", columns)

    def _write_sets(self, found: Attribution, sets: PathSets) -> None:
        self.first["attribution_id"] = int(
            self.staging.scalar("select coalesce(max(attribution_id) + 1, 0) from attribution")
        )
        owner_path = np.full(len(sets.rule_cnt), NONE, dtype=np.int64)
        owned = sets.of_launch >= 0
        owner_path[sets.of_launch[owned]] = found.path[found.owner[owned]]
        columns = {
            "attribution_id": sets.number,
            "path_id": sets.path,
            "rule": pa.DictionaryArray.from_arrays(sets.rule, RULES).cast(pa.string()),
            "is_self": owner_path[sets.number] == sets.path,
        }
        self._write("attribution", columns)

    def _write_operations(self, launched: Launched, found: Attribution, sets: Ints) -> None:
        calls, call = launched.calls, launched.call
        self.first["gpu_op_id"] = self._next_id("gpu_op")
        place = np.empty_like(launched.by_start)
        place[launched.by_start] = np.arange(len(place))
        self.is_first_op = _first_of_each(call, launched.by_start)
        self._write_memory_operations(place)

        def of(rows: slice) -> dict[str, Any]:
            called, launch = call[rows], launched.launch[rows]
            return {
                "gpu_op_id": place[rows] + self.first["gpu_op_id"],
                "api_call_id": _ids(called, self.first["api_call_id"]),
                "launch_start_ns": _nullable(calls.start, called),
                "launch_end_ns": _nullable(calls.end, called),
                "is_first_op": pa.array(self.is_first_op[rows], mask=called < 0),
                "range_id": _ids(take(found.owner, launch), self.first["range_id"]),
                "attribution_id": _ids(take(sets, launch), self.first["attribution_id"]),
                "operator_id": _ids(take(found.operator, launch), self.first["range_id"]),
            }

        self.staging.append("gpu_op", (of(rows) for rows in slices(len(call), _WRITTEN_AT_ONCE)))

    def _write_memory_operations(self, place: Ints) -> None:
        if not place.size:  # columns without a type
            return
        staged = self.staging.columns("staged_gpu_op")
        moved = np.flatnonzero(pc.is_in(staged["kind"], pa.array([OP_MEMCPY, OP_MEMSET])).to_numpy())
        columns = {name: staged[name].take(moved) for name in moved_columns()}
        self._write("memory_operation", {"gpu_op_id": place[moved]} | columns)

    def _work(self, launched: Launched) -> tuple[Work, Ints, Ints]:
        """All operations in order of their ids; the launch of each, NONE without; the device numbers."""
        order, calls, operations = launched.by_start, launched.calls, launched.operations
        devices, device = distinct(operations.device)
        streams, stream = distinct(operations.stream)
        call = launched.call[order]
        work = Work(
            operations.start[order], operations.end[order], device[order], (device * len(streams) + stream)[order],
            operations.process[order], operations.is_kernel[order], take(calls.start, call), take(calls.end, call),
            take(calls.thread, call), self.is_first_op[order],
        )  # fmt: skip
        return work, launched.launch[order], devices

    def _write(self, table: str, columns: dict[str, Any]) -> None:
        """Rows whose keys begin with 0 into a table."""
        shifted = {name: c + self.first[name] if name in self.first else c for name, c in columns.items()}
        self.staging.write(table, shifted)

    def _write_measures(self, work: Work, launch: Ints, reach: Reach, ranges: Instances) -> None:
        measured = by_range(reach, launch, work, ranges.start, ranges.end)
        self._write("range_measure", measured)
        self._write("path_measure", by_path(ranges, measured))

    def _write_work_of_sets(self, work: Work, set_of: Ints, sets: PathSets, devices: Ints) -> None:
        rule_cnt = pa.array(sets.rule_cnt, mask=sets.rule_cnt < 0)
        self._write("set_work", by_set(work, set_of) | {"rule_cnt": rule_cnt})
        busy = busy_by_path(work, set_of, (sets.number, sets.path))
        busy["device_id"] = devices[busy["device_id"]] if len(devices) else busy["device_id"]
        self._write("path_busy", busy)

    def _write_names(self) -> None:
        """Keep the texts that rows refer to; a dictionary of the file may hold the program's whole output."""
        self.run_sql(
            """insert into name select * from staged_name
            semi join (
                select distinct name_id from gpu_op
                union all
                select distinct name_id from api_call
                union all
                select name_id from range_path
                union all
                select text_id from range
                union all
                select distinct shape_id from range
                union all
                select distinct name_id from overhead
                union all
                select distinct stack_id from memory_event
                union all
                select distinct stack_id from out_of_memory_event
            ) using (name_id)
            anti join name using (name_id)"""
        )


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


def _ids(index: Ints, first: int) -> Any:
    """Ids from indices: NONE becomes NULL."""
    return pa.array(index + first, mask=index < 0)


def _nullable(column: Ints, index: Ints) -> Any:
    """column[index], NULL where the index is NONE."""
    return pa.array(take(column, index), mask=index < 0)


def _first_of_each(launch: Ints, by_start: Ints) -> Any:
    """True for the operation of each launch that starts first."""
    is_first = np.zeros(len(launch), dtype=bool)
    first = np.empty(int(launch.max(initial=NONE)) + 1, dtype=np.int64)
    backwards = by_start[::-1]
    backwards = backwards[launch[backwards] >= 0]
    first[launch[backwards]] = backwards  # the earliest is written last
    is_first[first[launch[backwards]]] = True
    return is_first


def _path_texts(parent: Ints, names: list[str], kinds: Any) -> list[str | None]:
    """Names joined by '/', parents first; None for Python frames, whose paths would be megabytes."""
    texts: list[str | None] = []
    for above, name, kind in zip(parent.tolist(), names, kinds, strict=True):
        if kind == RANGE_PYTHON:
            texts.append(None)
            continue
        text = name if above < 0 else f"{texts[above]}/{name}"
        texts.append(text if len(text) <= PATH_TEXT_LIMIT else f"…{text[1 - PATH_TEXT_LIMIT :]}")
    return texts
