"""What a person wants of a report first: the order of its columns, and why it may be empty."""

from collections.abc import Sequence
from typing import Any

from .. import sql
from ..sql import quoted

# Columns that answer, for views whose own order begins with something else. The others follow in the view's order.
_FIRST = {
    "range_summary": (
        "path", "range_cnt", "wall_ns", "kernel_ns", "launch_api_ns", "launch_overhead_ns", "self_kernel_ns",
        "launch_cnt",
    ),
    "range_instance": ("path", "start_ns", "wall_ns", "kernel_ns", "launch_api_ns", "launch_overhead_ns", "launch_cnt"),
    "range_kernel_summary": ("path", "kernel_name", "kernel_cnt", "kernel_ns", "mean_ns", "rule"),
    "nvtx_projection": ("path", "proj_start_ns", "gpu_span_ns", "gpu_busy_ns", "wall_ns", "kernel_cnt"),
    "launch_trace": (
        "kernel_name", "path", "call_api_start_time", "launch_api_ns", "queue_ns", "gpu_op_ns", "rule",
    ),
    "launch_outlier": ("outlier", "path", "kernel_name", "launch_api_ns", "queue_ns", "gpu_op_ns", "cost_ns"),
    "launch_summary": (
        "kernel_name", "launch_cnt", "launch_api_ns", "gpu_op_ns", "launch_bound_frac", "queue_ns", "api_name",
    ),
    "critical_path": ("step", "activity", "path", "critical_ns", "critical_frac", "segment_cnt"),
    "idle_gap": ("idle_ns", "cause", "path", "ended_by", "start_ns", "device_id"),
    "memory_copy": ("name", "path", "bytes", "gpu_op_ns", "bandwidth_bytes", "is_blocking", "is_pageable_async"),
    "operator_summary": (
        "operator", "call_cnt", "self_cpu_ns", "self_gpu_ns", "gpu_ns", "roofline_frac", "bound", "input_shapes",
    ),
    "step_summary": (
        "step", "wall_ns", "kernel_ns", "gpu_busy_ns", "launch_overhead_ns", "launch_cnt", "data_ns", "h2d_ns",
        "forward_ns", "backward_ns", "optimizer_ns",
    ),
    "memory_peak": ("device", "category", "live_bytes", "live_frac", "path", "largest_bytes", "basis"),
}  # fmt: skip

# What a view's rows are made of: a table or view without which it is empty, and how to record it.
_NEEDS = {
    "gpu_op": "the input holds no GPU work; record with activities=[CPU, CUDA], or `nsys profile -t cuda,nvtx`",
    "step_summary": "no steps were found: open a range named `step 3` around each step",
    "memory_event": "no allocator events were recorded: profile_memory=True, a snapshot, or the memory pass of "
    "`lorabench collect`",
    "_lora_path": "no LoRA modules were found: record with `lorabench collect`, whose ranges name base, lora_A, lora_B",
    "range": "no ranges were recorded: NVTX ranges need `nsys profile -t cuda,nvtx`",
    "api_call": "no CUDA calls were recorded",
}
_MADE_OF = {
    "gpu_op": (
        "critical_path", "finding", "gpu_timeline_summary", "idle_gap", "idle_summary", "kernel_class",
        "kernel_summary", "launch_outlier",
        "launch_summary", "launch_trace", "memory_bandwidth", "memory_copy", "memory_copy_summary",
        "memory_operation_summary", "nvtx_projection", "queue_length", "range_kernel_summary", "unattributed",
        "utilisation_over_time",
    ),
    "step_summary": ("step_summary", "step_statistics", "straggler", "critical_path"),
    "memory_event": (
        "memory_by_category", "memory_fragmentation", "memory_peak", "memory_phase", "memory_timeline",
        "memory_finding",
    ),
    "_lora_path": ("lora_summary", "adapter_summary"),
    "range": ("range_summary", "range_instance", "operator_summary"),
    "api_call": ("api_summary", "sync_summary"),
}  # fmt: skip
_OTHERWISE = {
    "launch_cost": "it is fitted over traces of several runs of `lorabench collect` (--profiler torch or nsys, which a "
    "sweep leaves out); give their directories together",
    "operator_summary": "no PyTorch operators were recorded: torch.profiler has them, nsys with emit_nvtx",
    "finding": "no rule found a saving",
    "memory_finding": "no rule found anything",
    "validation": "no rule is broken",
    "out_of_memory": "no allocation failed",
    "straggler": "it needs the steps of several ranks",
    "unattributed": "all GPU work belongs to a range",
    "launch_outlier": "no launch was slow, and no kernel shorter than its launch",
    "memory_copy": "nothing was copied",
    "memory_copy_summary": "nothing was copied",
    "memory_bandwidth": "nothing was copied",
    "sync_summary": "nothing waited for the GPU",
    "memory_fragmentation": "it needs a snapshot of torch's allocator, or reserved sizes",
    "queue_length": "no launch waited",
}


def ordered(columns: Sequence[str]) -> list[str]:
    """The columns of a whole view with those first that answer; any others as they are."""
    view = view_of(columns)
    first = [name for name in _FIRST.get(view or "", ()) if name in columns]
    return [*first, *(name for name in columns if name not in first)]


def telling(columns: Sequence[str], rows: Sequence[dict[str, Any]]) -> list[str]:
    """The columns of rows for a person; of a whole view first what says which of several inputs a row is of.

    Where there is one input nothing says it. What is nothing in all rows comes last.
    """
    if not {"source_id", "rank"} <= set(columns):
        return list(columns)
    if len({row.get("source_id") for row in rows}) > 1:
        first = "rank" if all(row.get("rank") is not None for row in rows) else "source_id"
        columns = [first, *(name for name in columns if name != first)]
    else:
        columns = [name for name in columns if name not in ("source_id", "rank") or len(columns) < 3]
    return sorted(columns, key=lambda name: not any(row.get(name) not in (None, 0, "") for row in rows))


def view_of(columns: Sequence[str]) -> str | None:
    """The public view that has exactly these columns."""
    wanted = list(columns)
    return next((view.name for view in sql.public() if [c.name for c in view.columns] == wanted), None)


def why_nothing(database: Any, view: str | None, filters: Sequence[str]) -> str:
    """Why a statement with the columns of a view has no rows: the view has none, or others than what was asked for."""
    if view is None or not database.rows(f"select 1 from {quoted(view)} limit 1"):
        return why_empty(database, view)
    asked = ", ".join(filters) or "what the statement asks for"
    return f"no row of {view} matches {asked}"


def why_empty(database: Any, view: str | None) -> str:
    """Why a view of this database has no rows, in one line."""
    if view is None:
        return "no rows"
    for needed, views in _MADE_OF.items():
        if view in views and not database.rows(f"select 1 from {needed} limit 1"):
            return f"{view} has no rows: {_NEEDS[needed]}"
    return f"{view} has no rows: {_OTHERWISE[view]}" if view in _OTHERWISE else f"{view} has no rows"
