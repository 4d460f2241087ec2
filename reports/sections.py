"""What a page shows of one input: each section asks one view and names its picture.

Everything that a browser must draw is made small here, in SQL: a trace of a million kernels and one of a thousand give
pages of about the same size.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from . import figures
from .memory_sections import memory_sections
from .section import Section, Source, only, pictured, section, tabled

_BIN_CNT = 500
_FINE_CNT = 64 * _BIN_CNT  # of the timeline, for who zooms in
_TIMELINE_STREAM_CNT = 24
_LONGEST_CNT = 1500
_TREE_LIMIT = 1200
_STREAM_CNT = 4


def sections(source: Source) -> list[Section]:
    """The sections of an input, without those that its trace has nothing for."""
    return [made for made in _sections(source) if made is not None]


def _sections(source: Source) -> Iterable[Section | None]:
    yield tabled(source, "findings", "Findings", "What rules found, costliest first.", "finding",
                 "select severity, replace(rule, '_', ' ') as rule, place, cost_ns, cost_frac, evidence, advice "
                 "from finding "
                 "where source_id = {id}",
                 is_open=True)  # fmt: skip
    yield _timeline(source)
    yield _tree(source)
    yield _launching(source)
    yield pictured(
        source,
        "kernels",
        "Kernels",
        "The kernels with the most time.",
        "kernel_summary",
        "select kernel_name, kernel_cnt, kernel_ns from kernel_summary where source_id = {id} order by kernel_ns desc",
        lambda rows: figures.stacked_bars(rows[:15], "kernel_name", [("kernel_ns", "kernel time")]),
    )
    yield pictured(
        source,
        "classes",
        "Kinds of work",
        "What the GPU's time goes into.",
        "kernel_class",
        "select class, sum(gpu_op_cnt)::bigint as gpu_op_cnt, sum(gpu_op_ns)::bigint as gpu_op_ns from kernel_class "
        "where source_id = {id} group by class order by gpu_op_ns desc",
        lambda rows: figures.stacked_bars(rows, "class", [("gpu_op_ns", "GPU time")]),
    )
    yield pictured(
        source,
        "operators",
        "Operators",
        "PyTorch operators by the GPU time of the kernels that they launched, without any by their own CPU time.",
        "operator_summary",
        "select operator, input_shapes, call_cnt, self_cpu_ns, self_gpu_ns, backward_gpu_ns, flop_s, bound, "
        "roofline_frac "
        "from operator_summary where source_id = {id} order by self_gpu_ns desc, self_cpu_ns desc",
        lambda rows: figures.stacked_bars(
            rows[:15],
            "operator",
            [("self_gpu_ns", "own GPU time")] if rows[0]["self_gpu_ns"] else [("self_cpu_ns", "own CPU time")],
        ),
    )
    yield pictured(
        source, "critical", "Critical path", "What the steps' length hangs on.",
        "critical_path",
        "select activity, path, name, sum(critical_ns)::bigint as critical_ns from critical_path "
        "where source_id = {id} "
        "group by all order by critical_ns desc",
        lambda rows: figures.stacked_bars(
            [{"label": f"{r['activity']}: {r['name'] or r['path'] or '(no range)'}", **r} for r in rows[:15]],
            "label", [("critical_ns", "on the critical path")]),
    )  # fmt: skip
    yield pictured(
        source,
        "idle",
        "Why the GPU was idle",
        "host: for the CPU; dependency: for another stream, an event or a copy; kernel_wait: between kernels.",
        "idle_summary",
        "select device_id, cause, gap_cnt, idle_ns, idle_frac, max_ns from idle_summary where source_id = {id}",
        lambda rows: figures.stacked_bars(rows, "cause", [("idle_ns", "idle")]),
    )
    yield _utilisation(source)
    yield _queue(source)
    yield pictured(
        source, "lora", "LoRA", "Base against adapters, forward, backward and recomputed.", "lora_summary",
        "select module, part, direction, range_cnt, launch_cnt, kernel_cnt, gpu_op_ns, gpu_op_frac from lora_summary "
        "where source_id = {id}",
        lambda rows: figures.grouped(
            [{"where": f"{r['module']} {r['part']}", **r} for r in rows[:60]], "where", "direction", "gpu_op_ns")
        if any(r["gpu_op_ns"] for r in rows) else None,
    )  # fmt: skip
    yield from memory_sections(source)
    yield tabled(source, "steps", "Steps", "Each step, with its phases.", "step_summary",
                 "select step, wall_ns, data_ns, forward_ns, backward_ns, optimizer_ns, launch_cnt, kernel_ns, "
                 "gpu_busy_ns, token_cnt, is_uneven from step_summary where source_id = {id}")  # fmt: skip
    yield tabled(source, "ranks", "Ranks", "The inputs side by side.", "rank_summary",
                 "select rank, name, step_ns, busy_ns, exposed_communication_ns, idle_ns, straggler_cnt "
                 "from rank_summary where (select count(*) from source) > 1")  # fmt: skip
    yield tabled(source, "file", "The file", "What it holds, what is missing and what was lost.", "trace_info",
                 "select section, item, value, note from trace_info where source_id = {id}")  # fmt: skip


def _timeline(source: Source) -> Section | None:
    streams = source.rows(
        f"""with op as (select device_id, stream_id, start_ns, end_ns from gpu_op where source_id = {{id}}),
        width as (select greatest(1, (max(end_ns) - min(start_ns)) // {_FINE_CNT} + 1) as ns from op),
        piece as (
            select device_id, stream_id, start_ns, end_ns, ns,
                unnest(range(
                    (start_ns - {{begin}}) // ns, (greatest(end_ns - 1, start_ns) - {{begin}}) // ns + 1
                )) as bin
            from op cross join width
        ),
        cell as (
            select device_id, stream_id, bin, any_value(ns) as ns, least(255, ceil(255 * sum(
                least(end_ns, {{begin}} + (bin + 1) * ns) - greatest(start_ns, {{begin}} + bin * ns)
            ) / any_value(ns)))::integer as level
            from piece group by device_id, stream_id, bin
        )
        select device_id, stream_id, any_value(ns) as bin_ns, list(bin) as bins, list(level) as levels
        from cell group by device_id, stream_id order by sum(level) desc limit {_TIMELINE_STREAM_CNT}"""
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
    if not streams:
        return None
    text = (
        "How busy each stream was, from the first GPU work on, and the longest operations by themselves. Drag to zoom, "
        "double-click to go back."
    )
    fine = [_filled(row) for row in sorted(streams, key=lambda row: (row["device_id"], row["stream_id"]))]
    rows = only(longest, "name", "path", "start_ns", "duration_ns")
    made = section("timeline", "Timeline", text, "launch_trace", rows, figures.timeline(fine, longest, _BIN_CNT))
    return replace(made, zoom=figures.zoom(fine, _BIN_CNT))


def _filled(row: dict[str, Any]) -> dict[str, Any]:
    """A stream with a level from 0 (idle) to 255 (busy) for every fine bin."""
    levels = bytearray(_FINE_CNT)
    for place, level in zip(row["bins"], row["levels"], strict=True):
        levels[place] = level
    return {"name": figures.stream_name(row), "bin_ns": row["bin_ns"], "levels": bytes(levels)}


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
    table = only(rows, "path", "range_cnt", "wall_ns", "launch_api_ns", "kernel_ns")
    return section("ranges", "Ranges", text, "range_summary", table, figure)


def _launching(source: Source) -> Section | None:
    return pictured(
        source, "launching", "Execution against launch",
        "For each range: its kernels, and the CPU's time in the calls that launched them.", "range_summary",
        "select path, launch_cnt, kernel_ns, launch_api_ns, queue_ns from range_summary where source_id = {id} "
        "and kind = 'annotation' and launch_cnt > 0 order by kernel_ns + launch_api_ns desc",
        lambda rows: figures.stacked_bars(
            rows[:15], "path", [("kernel_ns", "kernels"), ("launch_api_ns", "launching")]),
    )  # fmt: skip


def _queue(source: Source) -> Section | None:
    """The streams with the longest queues, a line each."""
    return pictured(
        source, "queue", "Queue length over time",
        "Work that was launched and had not begun, on average in each time bin. Near zero, the GPU waits for the CPU.",
        "queue_length",
        f"""with queue as (
            select 'device ' || device_id || ', stream ' || stream_id as stream, start_ns - {{begin}} as start_ns,
                mean_queue_cnt, waiting_ns
            from queue_length where source_id = {{id}}
        )
        from queue
        where stream in (
            select stream from queue group by stream having sum(waiting_ns) > 0
            order by sum(waiting_ns) desc limit {_STREAM_CNT}
        )
        order by start_ns, stream""",
        lambda rows: figures.lines(
            *_lines_of(rows, "stream", "mean_queue_cnt"), "launched, not begun"),
    )  # fmt: skip


def _lines_of(
    rows: list[dict[str, Any]], key: str, value: str, what: str = ""
) -> tuple[list[dict[str, Any]], str, list[tuple[str, str]]]:
    """Rows of a time with a column for each device or stream: what figures.lines() takes."""
    keys = list(dict.fromkeys(row[key] for row in rows))
    wide: dict[int, dict[str, Any]] = {}
    for row in rows:
        at = wide.setdefault(row["start_ns"], {"start_ns": row["start_ns"], **{str(k): None for k in keys}})
        at[str(row[key])] = row[value]
    return list(wide.values()), "start_ns", [(str(k), f"{what} {k}".strip()) for k in keys]


def _utilisation(source: Source) -> Section | None:
    return pictured(
        source,
        "utilisation",
        "Utilisation over time",
        "Share of each time bin with any work on the device.",
        "utilisation_over_time",
        "select device_id, start_ns - {begin} as start_ns, busy_ns, busy_frac from utilisation_over_time "
        "where source_id = {id} order by device_id, start_ns",
        lambda rows: figures.lines(*_lines_of(rows, "device_id", "busy_frac", "device"), "busy", percent=True),
    )
