"""Arrays of one source into the tables of the model; keys continue where the source before ended."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ... import sql
from ...vocabulary import OP_MEMCPY, OP_MEMSET, RANGE_PYTHON, RULES
from ..attribute.attribution import Attribution, PathSets
from ..attribute.intervals import NONE, Ints, distinct, slices, take
from ..attribute.launches import Launched, Work
from ..attribute.measures import busy_by_path, by_range
from ..attribute.reach import Reach
from ..read.staging import Staging, moved_columns
from ..store import arrow_functions as arrow
from .staged import StagedRanges

_WRITTEN_AT_ONCE = 1 << 20  # operations
PATH_TEXT_LIMIT = 2000  # characters; a path of thousands of nested names is cut from the left


@dataclass(frozen=True)
class FirstKeys:
    """The source's first key in each table."""

    api_call_id: int
    range_id: int
    path_id: int
    gpu_op_id: int
    attribution_id: int

    @classmethod
    def behind_what_is_there(cls, staging: Staging) -> "FirstKeys":
        """Keys that continue those in the database."""

        def rows(table: str) -> int:
            return int(staging.scalar(f"select count(*) from {table}"))

        sets = int(staging.scalar("select coalesce(max(attribution_id) + 1, 0) from attribution"))
        return cls(rows("api_call"), rows("range"), rows("range_path"), rows("gpu_op"), sets)

    def shifted(self, columns: dict[str, Any]) -> dict[str, Any]:
        """Columns whose keys begin with 0 with those of the source."""
        return {n: c + getattr(self, n) if n in self.__dataclass_fields__ else c for n, c in columns.items()}


def write_calls(staging: Staging, first: FirstKeys, is_duplicate: Any) -> None:
    """The table api_call."""
    ids = np.arange(len(is_duplicate)) + first.api_call_id
    staging.append("api_call", [{"api_call_id": ids, "is_duplicate": is_duplicate}])


def write_ranges(staging: Staging, first: FirstKeys, staged: StagedRanges, found: Attribution) -> None:
    """The table range, in the order in which the rows were staged, and the table range_path."""
    unsorted = np.empty_like(staged.order)
    unsorted[staged.order] = np.arange(len(staged.order))
    computed = {
        "range_id": unsorted + first.range_id,
        "end_ns": staged.ranges.end[unsorted],
        "name_id": staged.ranges.name[unsorted],
        "is_unfinished": staged.is_unfinished,
        "covered_ns": found.covered[unsorted],
        "parent_id": _ids(found.reach.tree.parent[unsorted], first.range_id),
        "depth": found.reach.depth[unsorted],
        "path_id": found.path[unsorted] + first.path_id,
    }
    staging.append("range", [computed])
    _write_paths(staging, first, staged, found)


def _write_paths(staging: Staging, first: FirstKeys, staged: StagedRanges, found: Attribution) -> None:
    paths = found.paths
    run = staging.database.connection.execute
    texts = dict(run("select name_id, text from staged_name semi join range using (name_id)").fetchall())
    kind = [staged.kinds[number] for number in staged.kind[paths.example]]
    columns = {
        "path_id": np.arange(len(paths.name)),
        "parent_path_id": _ids(paths.parent, first.path_id),
        "depth": paths.depth,
        "kind": pa.array(kind, pa.string()),
        "name_id": paths.name,
        "path": pa.array(_path_texts(paths.parent, [texts[n] for n in paths.name.tolist()], kind), pa.string()),
    }
    staging.write("range_path", first.shifted(columns))


def write_reach(staging: Staging, first: FirstKeys, found: Attribution, owners: Ints) -> None:
    """The table reach: what accounts for launches besides their owners; `owners` are their places among the calls.

    launch      0   1   2
    direct      a   -   b       owners: a c b
    sequence    -   c   d       reach:  (2, d, sequence)
    window      -   -   -
    """
    chains = found.reach.chains
    is_owned = np.zeros(len(found.owner), dtype=bool)
    parts = []
    for number, chain in enumerate(chains):
        launch = np.flatnonzero(is_owned & (chain >= 0))
        parts.append((launch, chain[launch], np.full(len(launch), number)))
        is_owned |= chain >= 0
    launch, range_, rule = (np.concatenate(column) for column in zip(*parts, found.reach.extra, strict=True))
    if not launch.size:
        return
    columns = {
        "api_call_id": owners[launch],
        "range_id": range_,
        "rule": arrow.cast(pa.DictionaryArray.from_arrays(rule, RULES), pa.string()),
        "is_alone": np.arange(len(launch)) >= sum(len(part[0]) for part in parts),
    }
    staging.write("reach", first.shifted(columns))


def write_sets(staging: Staging, first: FirstKeys, found: Attribution, sets: PathSets) -> None:
    """The table attribution."""
    owner_path = np.full(sets.cnt, NONE, dtype=np.int64)
    owned = sets.of_launch >= 0
    owner_path[sets.of_launch[owned]] = found.path[found.owner[owned]]
    columns = {
        "attribution_id": sets.number,
        "path_id": sets.path,
        "rule": arrow.cast(pa.DictionaryArray.from_arrays(sets.rule, RULES), pa.string()),
        "is_self": owner_path[sets.number] == sets.path,
    }
    staging.write("attribution", first.shifted(columns))


def write_operations(
    staging: Staging, first: FirstKeys, launched: Launched, found: Attribution, sets: Ints, is_first_op: Any
) -> None:
    """The tables gpu_op and memory_operation; `sets` is the set of paths of each launch."""
    calls, call = launched.calls, launched.call
    place = np.empty_like(launched.by_start)
    place[launched.by_start] = np.arange(len(place))
    _write_memory_operations(staging, first, place)

    def of(rows: slice) -> dict[str, Any]:
        called, launch = call[rows], launched.launch[rows]
        return {
            "gpu_op_id": place[rows] + first.gpu_op_id,
            "api_call_id": _ids(called, first.api_call_id),
            "launch_start_ns": _nullable(calls.start, called),
            "launch_end_ns": _nullable(calls.end, called),
            "is_first_op": pa.array(is_first_op[rows], mask=called < 0),
            "range_id": _ids(take(found.owner, launch), first.range_id),
            "attribution_id": _ids(take(sets, launch), first.attribution_id),
            "operator_id": _ids(take(found.operator, launch), first.range_id),
        }

    staging.append("gpu_op", (of(rows) for rows in slices(len(call), _WRITTEN_AT_ONCE)))


def _write_memory_operations(staging: Staging, first: FirstKeys, place: Ints) -> None:
    if not place.size:  # columns without a type
        return
    staged = staging.columns("staged_gpu_op")
    moved = np.flatnonzero(arrow.is_in(staged["kind"], (OP_MEMCPY, OP_MEMSET), pa.string()).to_numpy())
    columns = {name: arrow.take(staged[name], moved) for name in moved_columns()}
    staging.write("memory_operation", first.shifted({"gpu_op_id": place[moved]} | columns))


def first_of_each_call(call: Ints, by_start: Ints) -> Any:
    """True for the operation of each call that starts first."""
    is_first = np.zeros(len(call), dtype=bool)
    first = np.empty(int(call.max(initial=NONE)) + 1, dtype=np.int64)
    backwards = by_start[::-1]
    backwards = backwards[call[backwards] >= 0]
    first[call[backwards]] = backwards  # the earliest is written last
    is_first[first[call[backwards]]] = True
    return is_first


def work_of(launched: Launched, is_first_op: Any) -> tuple[Work, Ints, Ints]:
    """All operations in order of their ids; the launch of each, NONE without; the device numbers."""
    order, calls, operations = launched.by_start, launched.calls, launched.operations
    devices, device = distinct(operations.device)
    streams, stream = distinct(operations.stream)
    call = launched.call[order]
    work = Work(
        operations.start[order], operations.end[order], device[order], (device * len(streams) + stream)[order],
        operations.process[order], operations.is_kernel[order], take(calls.start, call), take(calls.end, call),
        take(calls.thread, call), is_first_op[order],
    )  # fmt: skip
    return work, launched.launch[order], devices


def write_devices(staging: Staging, at_work: Ints) -> None:
    """Rows of the table device for those of these that the file does not describe."""
    described = staging.database.columns("select device_id from device semi join reading using (source_id)")
    if np.setdiff1d(at_work, described["device_id"]).size:
        staging.insert(sql.staging("device_at_work"), "device")


def write_measures(
    staging: Staging, first: FirstKeys, work: Work, launch: Ints, reach: Reach, extent: tuple[Ints, Ints]
) -> None:
    """The table range_measure from arrays, the table path_measure by its definition; `extent` is that of all ranges."""
    staging.write("range_measure", first.shifted(by_range(reach, launch, work, *extent)))
    staging.fill_by_definition("path_measure", f"path_id >= {first.path_id}")


def write_work_of_sets(
    staging: Staging, first: FirstKeys, work: Work, set_of: Ints, sets: PathSets, devices: Ints
) -> None:
    """The table set_work by its definition, the table path_busy from arrays."""
    staging.fill_by_definition("set_work", f"attribution_id >= {first.attribution_id}")
    busy = busy_by_path(work, set_of, (sets.number, sets.path))
    busy["device_id"] = devices[busy["device_id"]] if len(devices) else busy["device_id"]
    staging.write("path_busy", first.shifted(busy))


def write_names(staging: Staging) -> None:
    """Keep the texts that rows refer to; a dictionary of the file may hold the program's whole output."""
    staging.insert(sql.staging("used_name"), "name")


def _ids(index: Ints, first: int) -> Any:
    """Ids from indices: NONE becomes NULL."""
    return pa.array(index + first, mask=index < 0)


def _nullable(column: Ints, index: Ints) -> Any:
    """column[index], NULL where the index is NONE."""
    return pa.array(take(column, index), mask=index < 0)


def _path_texts(parent: Ints, names: list[str], kinds: list[str]) -> list[str | None]:
    """Names joined by '/', parents first; None for Python frames, whose paths would be megabytes."""
    texts: list[str | None] = []
    for above, name, kind in zip(parent.tolist(), names, kinds, strict=True):
        if kind == RANGE_PYTHON:
            texts.append(None)
            continue
        text = name if above < 0 else f"{texts[above]}/{name}"
        texts.append(text if len(text) <= PATH_TEXT_LIMIT else f"…{text[1 - PATH_TEXT_LIMIT :]}")
    return texts
