"""The columns of a view as a person wants them: those first that answer."""

from collections.abc import Sequence
from typing import Any

from ... import sql

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
    "memory_copy_summary": (
        "name", "src_kind", "dst_kind", "gpu_op_cnt", "gpu_op_ns", "bandwidth_bytes", "blocking_cnt",
        "pageable_async_cnt", "bytes",
    ),
    "memory_bandwidth": ("copy_kind", "bin", "start_ns", "moved_bytes", "bandwidth_bytes"),
    "memory_copy": ("name", "path", "bytes", "gpu_op_ns", "bandwidth_bytes", "is_blocking", "is_pageable_async"),
    "operator_summary": (
        "operator", "call_cnt", "self_cpu_ns", "self_gpu_ns", "gpu_ns", "roofline_frac", "bound", "input_shapes",
    ),
    "step_summary": (
        "step", "length_ns", "wall_ns", "gpu_busy_ns", "kernel_ns", "found_by", "launch_overhead_ns", "launch_cnt",
        "data_ns", "h2d_ns",
        "forward_ns", "backward_ns", "optimizer_ns",
    ),
    "memory_peak": ("device", "category", "live_bytes", "live_frac", "path", "largest_bytes", "basis"),
    "kernel_summary": ("short_name", "kernel_cnt", "kernel_ns", "kernel_frac", "mean_ns", "median_ns", "max_ns"),
    "gpu_timeline_summary": (
        "device_name", "busy_frac", "window_ns", "compute_ns", "idle_ns", "exposed_communication_ns",
        "exposed_memory_ns",
    ),
    "steady_state": (
        "device_name", "window_ns", "compute_ns", "host_idle_ns", "exposed_memory_ns", "exposed_communication_ns",
        "rank_wait_ns", "dependency_idle_ns", "kernel_wait_ns",
    ),
    "rank_summary": (
        "rank", "step_ns", "slower_frac", "compute_ns", "idle_ns", "straggler_cnt", "kept_waiting_ns",
        "exposed_communication_ns",
    ),
    "straggler": ("step", "rank", "kept_waiting_ns", "late_ns", "cause", "cause_ns", "cause_place", "is_straggler"),
    "without_stragglers": ("step", "rank", "measured_ns", "replayed_ns", "without_ns", "alone_ns", "alone_slower_frac"),
    "pipeline_bubble": ("step", "rank", "stage", "bubble_frac", "ideal_frac", "step_ns", "active_ns"),
    "kernel_over_ranks": (
        "short_name", "rank_cnt", "kernel_ns", "kernel_frac", "mean_ns", "slowest_rank", "slowest_mean_ns",
    ),
    "collective_summary": (
        "operation", "group_name", "least_bytes", "collective_cnt", "busbw_bytes_s", "work_ns", "wait_ns", "dtype",
    ),
    "collective_match": (
        "step", "operation", "group_name", "bytes", "skew_ns", "last_rank", "transfer_ns", "busbw_bytes_s", "reason",
    ),
    "collective_skew": (
        "step", "rank", "operation", "group_name", "late_ns", "wait_ns", "is_last", "skew_ns", "error_ns",
    ),
    "exposed_communication": ("group_name", "communication_ns", "exposed_communication_ns", "exposed_frac"),
}  # fmt: skip


def ordered(columns: Sequence[str]) -> list[str]:
    """The columns of a whole view with those first that answer; any others as they are."""
    view = view_of(columns)
    first = [name for name in _FIRST.get(view or "", ()) if name in columns]
    return [*first, *(name for name in columns if name not in first)]


def telling(columns: Sequence[str], rows: Sequence[dict[str, Any]]) -> list[str]:
    """The columns of rows for a person; of a whole view first what says which of several inputs a row is of.

    Where there is one input nothing says it. What is nothing in all rows comes last, but for step 0.
    """
    if not {"source_id", "rank"} <= set(columns):
        return list(columns)
    if len({row.get("source_id") for row in rows}) > 1:
        first = "rank" if all(row.get("rank") is not None for row in rows) else "source_id"
        columns = [first, *(name for name in columns if name != first)]
    else:
        columns = [name for name in columns if name not in ("source_id", "rank") or len(columns) < 3]
    return sorted(
        columns, key=lambda name: name != "step" and not any(row.get(name) not in (None, 0, "") for row in rows)
    )


def view_of(columns: Sequence[str]) -> str | None:
    """The public view that has exactly these columns."""
    wanted = list(columns)
    return next((view.name for view in sql.public() if [c.name for c in view.columns] == wanted), None)
