"""What a page shows of one input: each section asks one view and names its picture.

Everything that a browser must draw is made small here, in SQL: a trace of a million kernels and one of a thousand give
pages of about the same size.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ..analyze.database import Database
from . import figures
from .cells import Cell, Column, of_rows

_ROW_LIMIT = 200
_BIN_CNT = 500
_LONGEST_CNT = 1500
_TREE_LIMIT = 1200


@dataclass(frozen=True)
class Section:
    """A picture with its table and the view behind it."""

    name: str
    title: str
    text: str
    view: str
    figure: Any = None
    columns: list[Column] = field(default_factory=list)
    rows: list[list[Cell]] = field(default_factory=list)
    left_out: int = 0
    is_open: bool = False


class Source:
    """The one input that a page shows."""

    def __init__(self, database: Database, source_id: int):
        self.database, self.source_id = database, source_id
        ((self.name, self.kind),) = database.rows(f"select name, kind from source where source_id = {source_id}")
        ((self.begin,),) = database.rows(f"select coalesce(min(start_ns), 0) from gpu_op where source_id = {source_id}")

    def rows(self, statement: str) -> list[dict[str, Any]]:
        """The rows of a query, in which {id} is the input and {begin} its first GPU work."""
        filled = statement.replace("{id}", str(self.source_id)).replace("{begin}", str(self.begin))
        cursor = self.database.connection.execute(filled)
        names = [str(column[0]) for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def subtitle(self) -> str:
        """What was read, in a line."""
        facts = self.rows("select item, value from source_fact where source_id = {id} and section = 'about'")
        told = {row["item"]: row["value"] for row in facts}
        run = [f"{name.removeprefix('run: ')} {value}" for name, value in told.items() if name.startswith("run: ")]
        device = [value for name, value in told.items() if name.startswith("device")]
        recorder = {"nsys": "NVIDIA Nsight Systems", "kineto": "torch.profiler"}.get(str(self.kind), str(self.kind))
        return ", ".join([f"recorded by {recorder}", *device[:2], *run])


def sections(source: Source) -> list[Section]:
    """The sections of an input, without those that its trace has nothing for."""
    return [section for section in _sections(source) if section is not None]


def _sections(source: Source) -> Iterable[Section | None]:
    yield _table(source, "findings", "Findings", "What rules found, costliest first.", "finding",
                 "select severity, replace(rule, '_', ' ') as rule, place, cost_ns, cost_frac, evidence, advice "
                 "from finding "
                 "where source_id = {id}",
                 is_open=True)  # fmt: skip
    yield _timeline(source)
    yield _tree(source)
    yield _launching(source)
    yield _pictured(
        source,
        "kernels",
        "Kernels",
        "The kernels with the most time.",
        "kernel_summary",
        "select kernel_name, kernel_cnt, kernel_ns from kernel_summary where source_id = {id} order by kernel_ns desc",
        lambda rows: figures.stacked_bars(rows[:15], "kernel_name", [("kernel_ns", "kernel time")]),
    )
    yield _pictured(
        source,
        "classes",
        "Kinds of work",
        "What the GPU's time goes into.",
        "kernel_class",
        "select class, sum(gpu_op_cnt)::bigint as gpu_op_cnt, sum(gpu_op_ns)::bigint as gpu_op_ns from kernel_class "
        "where source_id = {id} group by class order by gpu_op_ns desc",
        lambda rows: figures.stacked_bars(rows, "class", [("gpu_op_ns", "GPU time")]),
    )
    yield _pictured(
        source,
        "operators",
        "Operators",
        "PyTorch operators by the GPU time of the kernels that they launched.",
        "operator_summary",
        "select operator, input_shapes, call_cnt, self_cpu_ns, self_gpu_ns, backward_gpu_ns, flop_s, bound, "
        "roofline_frac "
        "from operator_summary where source_id = {id} order by self_gpu_ns desc, self_cpu_ns desc",
        lambda rows: figures.stacked_bars(rows[:15], "operator", [("self_gpu_ns", "own GPU time")]),
    )
    yield _pictured(
        source, "critical", "Critical path", "What the steps' length hangs on.",
        "critical_path",
        "select activity, path, name, sum(critical_ns)::bigint as critical_ns from critical_path "
        "where source_id = {id} "
        "group by all order by critical_ns desc",
        lambda rows: figures.stacked_bars(
            [{"label": f"{r['activity']}: {r['name'] or r['path'] or '(no range)'}", **r} for r in rows[:15]],
            "label", [("critical_ns", "on the critical path")]),
    )  # fmt: skip
    yield _pictured(
        source,
        "idle",
        "Why the GPU was idle",
        "host: for the CPU; dependency: for another stream, an event or a copy; kernel_wait: between kernels.",
        "idle_summary",
        "select device_id, cause, gap_cnt, idle_ns, idle_frac, max_ns from idle_summary where source_id = {id}",
        lambda rows: figures.stacked_bars(rows, "cause", [("idle_ns", "idle")]),
    )
    yield _series(source)
    yield _pictured(
        source, "lora", "LoRA", "Base against adapters, forward, backward and recomputed.", "lora_summary",
        "select module, part, direction, range_cnt, launch_cnt, kernel_cnt, gpu_op_ns, gpu_op_frac from lora_summary "
        "where source_id = {id}",
        lambda rows: figures.grouped(
            [{"where": f"{r['module']} {r['part']}", **r} for r in rows[:60]], "where", "direction", "gpu_op_ns"),
    )  # fmt: skip
    yield _memory(source)
    yield _table(source, "steps", "Steps", "Each step, with its phases.", "step_summary",
                 "select step, wall_ns, data_ns, forward_ns, backward_ns, optimizer_ns, launch_cnt, kernel_ns, "
                 "gpu_busy_ns, token_cnt, is_uneven from step_summary where source_id = {id}")  # fmt: skip
    yield _table(source, "ranks", "Ranks", "The inputs side by side.", "rank_summary",
                 "select rank, name, step_ns, busy_ns, exposed_communication_ns, idle_ns, straggler_cnt "
                 "from rank_summary where (select count(*) from source) > 1")  # fmt: skip
    yield _table(source, "file", "The file", "What it holds, what is missing and what was lost.", "trace_info",
                 "select section, item, value, note from trace_info where source_id = {id}")  # fmt: skip


def _timeline(source: Source) -> Section | None:
    bins = source.rows(
        f"""with op as (select device_id, stream_id, start_ns, end_ns from gpu_op where source_id = {{id}}),
        width as (select greatest(1, (max(end_ns) - min(start_ns)) // {_BIN_CNT} + 1) as ns from op),
        piece as (
            select device_id, stream_id, start_ns, end_ns, ns,
                unnest(range(
                    (start_ns - {{begin}}) // ns, (greatest(end_ns - 1, start_ns) - {{begin}}) // ns + 1
                )) as bin
            from op cross join width
        )
        select device_id, stream_id, bin * any_value(ns) as start_ns, least(1.0, sum(
            least(end_ns, {{begin}} + (bin + 1) * ns) - greatest(start_ns, {{begin}} + bin * ns)
        ) / any_value(ns)) as busy_frac
        from piece group by device_id, stream_id, bin"""
    )
    longest = source.rows(
        f"""select op.device_id, op.stream_id, op.start_ns - {{begin}} as start_ns,
            op.end_ns - op.start_ns as duration_ns, name.text as name, range_path.path
        from gpu_op as op
        join name using (name_id)
        left join range using (range_id)
        left join range_path using (path_id)
        where op.source_id = {{id}}
        order by duration_ns desc
        limit {_LONGEST_CNT}"""
    )
    if not bins:
        return None
    text = (
        "How busy each stream was, from the first GPU work on, and the longest operations by themselves. Drag to zoom, "
        "double-click to go back."
    )
    rows = _only(longest, "name", "path", "start_ns", "duration_ns")
    return _section("timeline", "Timeline", text, "launch_trace", rows, figures.timeline(bins, longest))


def _tree(source: Source) -> Section | None:
    rows = source.rows(
        f"""with node as (
            select path_id as id, parent_path_id as parent, name, path, range_cnt, wall_ns, launch_api_ns, kernel_ns,
                direct_kernel_ns
            from range_summary where source_id = {{id}} and kind = 'annotation' order by kernel_ns + wall_ns desc
            limit {_TREE_LIMIT}
        )
        select node.*, greatest(0, node.direct_kernel_ns - coalesce(below.direct_kernel_ns, 0))::bigint as own_ns,
            node.launch_api_ns / nullif(node.launch_api_ns + node.kernel_ns, 0) as launch_frac
        from node
        left join (
            select parent, sum(direct_kernel_ns) as direct_kernel_ns from node group by parent
        ) as below on below.parent = node.id
        order by node.kernel_ns desc, node.wall_ns desc"""
    )
    if not rows:
        return None
    text = "Kernel time of the ranges that you opened, each inside the one above it; colour: where launching dominates."
    figure = figures.icicle(rows) if any(row["own_ns"] for row in rows) else None
    table = _only(rows, "path", "range_cnt", "wall_ns", "launch_api_ns", "kernel_ns")
    return _section("ranges", "Ranges", text, "range_summary", table, figure)


def _launching(source: Source) -> Section | None:
    return _pictured(
        source, "launching", "Execution against launch",
        "For each range: its kernels, and the CPU's time in the calls that launched them.", "range_summary",
        "select path, launch_cnt, kernel_ns, launch_api_ns, queue_ns from range_summary where source_id = {id} "
        "and kind = 'annotation' and launch_cnt > 0 order by kernel_ns + launch_api_ns desc",
        lambda rows: figures.stacked_bars(
            rows[:15], "path", [("kernel_ns", "kernels"), ("launch_api_ns", "launching")]),
    )  # fmt: skip


def _memory(source: Source) -> Section | None:
    """Of the first input with events of memory, which of a run is that of its own pass; the device first."""
    found = source.database.rows(
        "select source_id, device from (select distinct source_id, device from memory_event) "
        "order by source_id, device = 'cpu', device limit 1"
    )
    if not found:
        return None
    source_id, device = found[0]
    which = f"source_id = {int(source_id)} and device = (select min(device) filter (device <> 'cpu') from memory_event)"
    if device == "cpu":
        which = f"source_id = {int(source_id)} and device = 'cpu'"
    series = source.rows(
        f"""select min(time_ns) as time_ns, max(allocated_bytes) / 1048576 as allocated,
            max(reserved_bytes) / 1048576 as reserved
        from (select *, ntile({_BIN_CNT}) over (order by time_ns) as bin from memory_timeline where {which})
        group by bin order by bin"""
    )
    peak = source.rows(
        f"select path, live_bytes, live_frac, allocation_cnt, largest_bytes from memory_peak where {which} "
        "order by live_bytes desc"
    )
    text = f"Memory of {device} over time; the table says what was live at the peak, by the range that allocated it."
    drawn = [("allocated", "allocated"), *([("reserved", "reserved")] if series[0]["reserved"] is not None else [])]
    return _section("memory", "Memory", text, "memory_peak", peak, figures.lines(series, "time_ns", drawn, "MiB"))


def _series(source: Source) -> Section | None:
    return _pictured(
        source,
        "utilisation",
        "Utilisation over time",
        "Share of each time bin with any work on the device.",
        "utilisation_over_time",
        "select device_id, start_ns - {begin} as start_ns, busy_ns, busy_frac from utilisation_over_time "
        "where source_id = {id} order by device_id, start_ns",
        lambda rows: figures.lines(rows, "start_ns", [("busy_frac", "busy")], "busy", percent=True),
    )


def _pictured(
    source: Source, name: str, title: str, text: str, view: str, statement: str, picture: Any
) -> Section | None:
    rows = source.rows(statement)
    return _section(name, title, text, view, rows, picture(rows)) if rows else None


def _table(
    source: Source, name: str, title: str, text: str, view: str, statement: str, is_open: bool = False
) -> Section | None:
    rows = source.rows(statement)
    return _section(name, title, text, view, rows, is_open=is_open) if rows else None


def _only(rows: list[dict[str, Any]], *columns: str) -> list[dict[str, Any]]:
    return [{name: row[name] for name in columns} for row in rows]


def _section(
    name: str, title: str, text: str, view: str, rows: list[dict[str, Any]], figure: Any = None, is_open: bool = False
) -> Section:
    columns, cells = of_rows(rows[:_ROW_LIMIT])
    return Section(name, title, text, view, figure, columns, cells, max(0, len(rows) - _ROW_LIMIT), is_open)
