"""The sections of a page about work: its timeline, and the flame graph of who owns it."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from ...errors import UsageError
from . import flame, kinds, timeline
from .section import Section, Source, section

Row = dict[str, Any]
_SNAPSHOT = "snapshot"
# In one order, so that the flame graph can say of each where its work stands.
_NAMES = (
    "select name_id, path_id, name, full_name, path, class from _page_name where source_id = {id} "
    "order by name_id, path_id"
)


def timeline_section(source: Source) -> Iterable[Section | None]:
    """Ranges over streams, everything at its time; none of a snapshot, which is about memory."""
    if source.kind == _SNAPSHOT:
        return
    known = [bounds for bounds in map(source.bounds, ("_page_op", "_page_range")) if bounds]
    if not known:
        return
    zero = known[0][0]
    shown = min(first for first, _ in known), max(last for _, last in known)
    narrow = ""
    if source.window is not None:
        shown = source.window.within(zero, *shown)
        narrow = f"and start_ns < {shown[1]} and end_ns > {shown[0]}"
    ops = source.columns(
        "select device_id, stream_id, start_ns, end_ns, name_id, path_id from _page_op "
        f"where source_id = {{id}} {narrow}"
    )
    ranges = source.columns(
        f"select thread, place, depth, start_ns, end_ns, path_id from _page_range where source_id = {{id}} {narrow}"
    )
    if not len(ops["start_ns"]) and not len(ranges["start_ns"]):
        raise UsageError(f"--window {source.window.text if source.window else ''}: nothing was recorded then")
    data = _timeline(source, ops, ranges, shown) | {
        "zero": zero - shown[0], "work_end": known[0][1] - shown[0], "is_window": source.window is not None
    }  # fmt: skip
    source.begin, source.has_timeline = zero, True  # of a trace without GPU work its first range
    rows = source.rows("select * exclude source_id from _page_longest where source_id = {id}")
    lanes = {
        (True, True): "Ranges of the CPU's threads above, the GPU's streams below.",
        (True, False): "Ranges of the CPU's threads.", (False, True): "The GPU's streams.",
    }[len(ranges["start_ns"]) > 0, len(ops["start_ns"]) > 0]  # fmt: skip
    text = (
        f"{lanes} A column of pixels is filled as high as its time was busy, so what is filled is what ran. Drag to "
        "zoom, double-click to see all."
    )
    if source.window is not None:
        text += f" It is the window from {_said(shown[0] - zero)} to {_said(shown[1] - zero)} of the recording."
    if data["cell_ns"]:
        text += (
            f" Of so many operations each stream is drawn in cells of {data['cell_ns'] / 1e3:,.1f} µs, named by what "
            "takes most of a cell."
        )
    if data["left_out"]:
        text += f" Left out: {_many(data['left_out'], 'stream')} with less work."
    used = {kind for _, kind, *_ in data["names"]}
    legend = tuple(name for number, name in enumerate(kinds.NAMES) if number in used)
    keys = {"name": "kernel", "path": "range", "start_ns": "begin", "duration_ns": "length"}
    ((op_cnt,),) = source.database.rows(f"select count(*) from gpu_op where source_id = {source.source_id}")
    if op_cnt > len(rows):
        text += " The table has the longest operations."
    yield section("timeline", "Timeline", text, "launch_trace", rows, data, kind="timeline", legend=legend, keys=keys,
                  follows=("time", "range", "kernel", "step"), row_cnt=op_cnt)  # fmt: skip


def _said(ns: int) -> str:
    return f"{ns / 1e6:,.3f} ms"


def _timeline(source: Source, ops: Row, ranges: Row, shown_ns: tuple[int, int]) -> Row:
    """What is drawn between two times."""
    names = source.rows(_NAMES)
    shown = [[row["name"], kinds.NAMES.index(kinds.of_class(row["class"])), row["path"], _full(row)] for row in names]
    lanes: list[Row] = []
    begin = shown_ns[0]
    if len(ranges["start_ns"]):
        paths = np.unique(ranges["path_id"])
        known = {row["path_id"]: row for row in source.rows(
            "select path_id, path, name, above from _page_path where source_id = {id}"
        )}  # fmt: skip
        of_paths = [known[int(path)] for path in paths]
        places: timeline.Numbers = np.asarray(np.searchsorted(paths, ranges["path_id"]) + len(shown), np.int64)
        shown += [[row["name"], kinds.NAMES.index(kinds.of_range(row["path"])), row["above"], ""]
                  for row in of_paths]  # fmt: skip
        for lane, thread, _ in timeline.range_lanes(ranges, places):
            lanes.append(lane.as_json(begin) | {"is_range": True, "title": thread})
    left_out = cell_ns = 0
    if len(ops["start_ns"]):
        known_names = tuple(np.array([row[key] for row in names], np.int64) for key in ("name_id", "path_id"))
        op_names = timeline.name_places((known_names[0], known_names[1]), (ops["name_id"], ops["path_id"]))
        streams, left_out, cell_ns = timeline.stream_lanes(ops, op_names)
        lanes += [lane.as_json(begin) | {"is_range": False} for lane in streams]
    return {
        "span": shown_ns[1] - begin, "lanes": lanes, "names": shown,
        "kinds": kinds.NAMES, "rank": source.rank, "left_out": left_out, "cell_ns": cell_ns, "summary": _told(lanes),
        "ops": _ops(source, names),
    }  # fmt: skip


def _ops(source: Source, names: list[Row]) -> Row:
    """Of each name of GPU work its class, and whether it is a kernel's: what a choice is added up by."""
    classes = {row["class"]: None for row in names}
    places = {name: place for place, name in enumerate(classes)}
    kernels = {row["short_name"] for row in source.rows("select short_name from kernel_summary where source_id = {id}")}
    return {
        "classes": list(classes), "class": [places[row["class"]] for row in names],
        "is_kernel": [int(row["name"] in kernels) for row in names],
    }  # fmt: skip


def _full(row: Row) -> str:
    return row["full_name"] if row["full_name"] != row["name"] else ""


def _told(lanes: list[Row]) -> str:
    streams = sum(not lane["is_range"] for lane in lanes)
    levels = len(lanes) - streams
    return f"Timeline of {_many(streams, 'GPU stream')} and {_many(levels, 'level')} of ranges."


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def flame_section(source: Source) -> Iterable[Section | None]:
    """Who owns the GPU's time, and whose ranges take the CPU's; none of a snapshot, which is about memory."""
    if source.kind == _SNAPSHOT:
        return
    work = source.rows("select * exclude source_id from _page_flame where source_id = {id}")
    ranges = source.rows(
        "select path, kind, range_cnt, wall_ns, self_wall_ns, launch_api_ns - launch_wait_ns as launch_ns, gpu_op_ns, "
        "kernel_ns, self_gpu_op_ns, path_id, sequence_kernel_ns from range_summary where source_id = {id}"
    )
    if not ranges and not work:
        return
    paths = {row["path_id"]: row for row in source.rows(
        "select path_id, parent_path_id, kind, name.text as name, path from range_path join name using (name_id) "
        "where source_id = {id}"
    )}  # fmt: skip
    if ranges and not paths:  # of a job whose parts are gone
        return
    text = (
        "Who owns the GPU's time: every operation once, in the innermost range that launched it, kernels at the ends. "
        "What another thread launched for a range (autograd's backward) stands under the range in whose time it did."
        if work
        else "Where the CPU's time goes: each thread's ranges, one inside the other."
    )
    if any(row["sequence_kernel_ns"] for row in ranges):
        text += (
            " The table counts for a range also the backward of its operators, wherever that ran (sequence numbers): "
            "what is once in the picture is there in the rows of the forward and of the backward."
        )
    if _has_annotated_operators(ranges, paths):
        text += (
            " By CPU wall time an annotation that an operator opens stands beside the operator, which is narrower "
            "than it was long by that time: paths of annotations have no operators in them."
        )
    table = [{name: row[name] for name in row if name not in _NOT_TABLED} for row in _costliest(ranges)]
    yield section(
        "ranges", "Ranges", text, "range_summary", table, _flame(source, work, ranges, paths), kind="flame",
        legend=tuple(name for name in kinds.NAMES if name in {kinds.of_class(row["class"]) for row in work}),
        keys={"path": "range"}, follows=("time", "range", "kernel") if work else ("range",),
        rows_are="without operators" if len(table) < len(ranges) else "",
    )  # fmt: skip


_NOT_TABLED = ("path_id", "sequence_kernel_ns")


def _has_annotated_operators(ranges: list[Row], paths: dict[int, Row]) -> bool:
    """Whether an operator took longer than what stands in its path: an annotation in it has a path of its own."""
    inside: dict[int, int] = {}
    for row in ranges:
        path_id: int | None = row["path_id"]
        while path_id is not None:
            inside[path_id] = inside.get(path_id, 0) + row["self_wall_ns"]
            path_id = paths[path_id]["parent_path_id"]
    return any(row["kind"] == "operator" and row["wall_ns"] > inside[row["path_id"]] for row in ranges)


def _costliest(ranges: list[Row]) -> list[Row]:
    """Annotations, and operators where there are none; with the most time first."""
    chosen = [row for row in ranges if row["kind"] == "annotation"] or ranges
    return sorted(chosen, key=lambda row: -(row["gpu_op_ns"] + row["wall_ns"]))


def _flame(source: Source, work: list[Row], ranges: list[Row], paths: dict[int, Row]) -> Row:
    measures = []
    data: Row = {"colours": {name: f"k-{kinds.of_class(name)}" for name in sorted({row["class"] for row in work})}}
    if work:
        data["work"], places = flame.of_work(work, paths, "everything")
        names = source.rows(_NAMES)
        data["places"] = [places.get((row["path_id"], row["name"]), 0) for row in names]
        measures.append({"title": "GPU time", "tree": "work", "column": 0, "whole": "all GPU time"})
        if any(row["launch_ns"] for row in work):
            measures.append({"title": "launching", "tree": "work", "column": 1, "whole": "all launching"})
    if any(row["self_wall_ns"] for row in ranges):
        data["wall"] = flame.of_wall(ranges, paths, "all ranges of all threads")
        wall = {"title": "CPU wall time", "tree": "wall", "column": 0, "whole": "the time in all threads' ranges"}
        measures.insert(1, wall)
    return data | {"measures": measures}
