"""One self-contained page about one recording: what was asked of the database, put into the template.

Everything that a browser must draw is made small here, in SQL: a trace of a million kernels and one of a thousand give
pages of about the same size.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2
import markupsafe
import plotly.io
import plotly.offline

from .. import __version__, rundir
from ..analyze.database import Database
from ..errors import InputError
from . import figures
from .tables import replacing

ROW_LIMIT = 200
_BIN_CNT = 500
_LONGEST_CNT = 1500
_TREE_LIMIT = 1200
_UNITS = (("_ns", "ms", 1e-6), ("_bytes", "MiB", 2**-20), ("_frac", "%", 100), ("flop_s", "TFLOP/s", 1e-12))


@dataclass(frozen=True)
class Cell:
    """What a table shows, and the number behind it where there is one."""

    text: str
    number: float | None


@dataclass(frozen=True)
class Column:
    """A column's heading."""

    title: str


@dataclass(frozen=True)
class Section:
    """A picture with its table and the view behind it."""

    name: str
    title: str
    text: str
    view: str
    figure: str | None = None
    columns: list[Column] = field(default_factory=list)
    rows: list[list[Cell]] = field(default_factory=list)
    left_out: int = 0
    is_open: bool = False


def write(database: Database, path: Path) -> None:
    """Write the page of a database to a file. Raises OutputError when it cannot be written."""
    text = render(database)
    with replacing(path) as partial:
        partial.write_text(text, "utf-8")


def render(database: Database) -> str:
    """The page as HTML. Of several inputs one is shown, and the others are listed beside it by rank.

    Raises InputError for a database without inputs that could be read.
    """
    source = _Source(database, _chosen(database))
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    sections = [section for section in _sections(source) if section is not None]
    return environment.get_template("page.html.jinja").render(
        title=source.name, subtitle=source.subtitle(), cards=_cards(source), findings=_findings(source),
        sections=sections, version=__version__, plotly_js=_script(plotly.offline.get_plotlyjs()),
    )  # fmt: skip


def _script(text: str) -> Any:
    """Text for a <script>, which nothing in it can end."""
    return markupsafe.Markup(text.replace("</", "<\\/"))


def _json(figure: Any) -> Any:
    """A figure as JSON for a <script>: no character of it can begin a tag."""
    text = plotly.io.to_json(figure, validate=False).replace("<", "\\u003c").replace("&", "\\u0026")
    return markupsafe.Markup(text)


def _chosen(database: Database) -> int:
    """The input to show: the first with GPU work; of a run directory's recordings nsys, then torch.profiler."""
    rows = database.rows(
        """select source_id, name, source_id in (select source_id from gpu_op) as has_gpu from source
        where kind is not null order by has_gpu desc, source_id"""
    )
    if not rows:
        raise InputError("none of the inputs could be read, so there is nothing to show")
    order = {name: number for number, name in enumerate(rundir.RECORDINGS)}
    return int(min(rows, key=lambda row: (not row[2], order.get(str(row[1]), -1), row[0]))[0])


class _Source:
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


def _cards(source: _Source) -> list[dict[str, str]]:
    cards: list[dict[str, str]] = []

    def add(what: str, value: str, note: str = "") -> None:
        cards.append({"what": what, "value": value, "note": note})

    for row in source.rows("from step_statistics where source_id = {id}"):
        add(
            "step, median", f"{row['p50_ns'] / 1e6:,.2f} ms", f"{row['step_cnt']} steps, p95 {row['p95_ns'] / 1e6:,.2f}"
        )
        if row["token_per_s"]:
            add("tokens", f"{row['token_per_s']:,.0f} /s", "with the profiler's cost")
    for row in source.rows("from gpu_timeline_summary where source_id = {id} limit 2"):
        add(f"device {row['device_id']} busy", f"{row['busy_frac']:.1%}", f"of {row['window_ns'] / 1e6:,.1f} ms")
    ((kernels, time),) = source.database.rows(
        f"select coalesce(sum(kernel_cnt), 0), coalesce(sum(kernel_ns), 0) from kernel_summary "
        f"where source_id = {source.source_id}"
    )
    add("kernels", f"{kernels:,}", f"{time / 1e6:,.1f} ms")
    ((calls, api),) = source.database.rows(
        f"select count(*), coalesce(sum(launch_end_ns - launch_start_ns), 0) from gpu_op "
        f"where source_id = {source.source_id} and is_first_op"
    )
    add("launches", f"{calls:,}", f"{api / 1e6:,.1f} ms of CPU")
    return cards


def _findings(source: _Source) -> list[dict[str, str]]:
    rows = source.rows("from finding where source_id = {id} limit 3")
    return [
        {"rule": row["rule"].replace("_", " "), "severity": row["severity"], "cost": f"{row['cost_ns'] / 1e6:,.2f} ms",
         "place": row["place"] or "", "evidence": row["evidence"], "advice": row["advice"].rstrip(".") + "."}
        for row in rows
    ]  # fmt: skip


def _sections(source: _Source) -> Iterable[Section | None]:
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


def _timeline(source: _Source) -> Section | None:
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
    columns, rows = _cells(
        [{k: row[k] for k in ("name", "path", "start_ns", "duration_ns")} for row in longest[:ROW_LIMIT]]
    )
    figure = _json(figures.timeline(bins, longest))
    return Section(
        "timeline", "Timeline", text, "launch_trace", figure, columns, rows, max(0, len(longest) - len(rows))
    )


def _tree(source: _Source) -> Section | None:
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
    columns = ("path", "range_cnt", "wall_ns", "launch_api_ns", "kernel_ns")
    titles, cells = _cells([{k: row[k] for k in columns} for row in rows[:ROW_LIMIT]])
    text = "Kernel time of the ranges that you opened, each inside the one above it; colour: where launching dominates."
    figure = _json(figures.icicle(rows)) if any(row["own_ns"] for row in rows) else None
    return Section("ranges", "Ranges", text, "range_summary", figure, titles, cells, max(0, len(rows) - len(cells)))


def _launching(source: _Source) -> Section | None:
    return _pictured(
        source, "launching", "Execution against launch",
        "For each range: its kernels, and the CPU's time in the calls that launched them.", "range_summary",
        "select path, launch_cnt, kernel_ns, launch_api_ns, queue_ns from range_summary where source_id = {id} "
        "and kind = 'annotation' and launch_cnt > 0 order by kernel_ns + launch_api_ns desc",
        lambda rows: figures.stacked_bars(
            rows[:15], "path", [("kernel_ns", "kernels"), ("launch_api_ns", "launching")]),
    )  # fmt: skip


def _memory(source: _Source) -> Section | None:
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
    columns, cells = _cells(peak[:ROW_LIMIT])
    text = f"Memory of {device} over time; the table says what was live at the peak, by the range that allocated it."
    drawn = [("allocated", "allocated"), *([("reserved", "reserved")] if series[0]["reserved"] is not None else [])]
    figure = _json(figures.lines(series, "time_ns", drawn, "MiB"))
    return Section("memory", "Memory", text, "memory_peak", figure, columns, cells, max(0, len(peak) - len(cells)))


def _series(source: _Source) -> Section | None:
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
    source: _Source, name: str, title: str, text: str, view: str, statement: str, picture: Any
) -> Section | None:
    rows = source.rows(statement)
    if not rows:
        return None
    columns, cells = _cells(rows[:ROW_LIMIT])
    return Section(name, title, text, view, _json(picture(rows)), columns, cells, max(0, len(rows) - len(cells)))


def _table(
    source: _Source, name: str, title: str, text: str, view: str, statement: str, is_open: bool = False
) -> Section | None:
    rows = source.rows(statement)
    if not rows:
        return None
    columns, cells = _cells(rows[:ROW_LIMIT])
    return Section(name, title, text, view, None, columns, cells, max(0, len(rows) - len(cells)), is_open)


def _cells(rows: list[dict[str, Any]]) -> tuple[list[Column], list[list[Cell]]]:
    """Headings with units, and the cells."""
    if not rows:
        return [], []
    return [Column(_title(name)) for name in rows[0]], [[_cell(n, v) for n, v in row.items()] for row in rows]


def _unit(name: str) -> tuple[str, str, float] | None:
    return next(((end, unit, factor) for end, unit, factor in _UNITS if name.endswith(end)), None)


def _title(name: str) -> str:
    found = _unit(name)
    if found is None:
        return name.replace("_cnt", "").replace("_", " ") + (" (count)" if name.endswith("_cnt") else "")
    return f"{name.removesuffix(found[0]).replace('_', ' ') or name} ({found[1]})"


def _cell(name: str, value: Any) -> Cell:
    if value is None:
        return Cell("", None)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return Cell(str(value), None)
    found = _unit(name)
    scaled = value * found[2] if found else value
    shown = f"{scaled:,.0f}" if isinstance(scaled, int) or (scaled == int(scaled) and not found) else f"{scaled:,.3f}"
    return Cell(shown, float(scaled))
