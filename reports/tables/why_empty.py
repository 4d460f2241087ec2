"""Why a report has no rows: what its view is made of, and how to record it."""

from collections.abc import Sequence
from typing import Any

from ...sql import quoted

# What a view's rows are made of: a table or view without which it is empty, and how to record it.
_NEEDS = {
    "gpu_op": "the input holds no GPU work; record with {}",
    "step_summary": "no steps were found: open a range named `step 3` around each step",
    "memory_event": "no allocator events were recorded: profile_memory=True, a snapshot, or the memory pass of "
    "`lorabench collect`",
    "_lora_path": "no LoRA modules were found: record with `lorabench collect`, whose ranges name base, lora_A, "
    "lora_B, or with record_shapes=True of torch.profiler",
    "range": "no ranges were recorded: NVTX ranges need `nsys profile --trace=cuda,nvtx`",
    "api_call": "no CUDA calls were recorded",
    "sampled_frame": "the CPU was not sampled: `nsys profile --sample=process-tree` does that, where "
    "`nsys status --environment` says that it can",
    "call_frame": "no stacks of CUDA calls were recorded: `nsys profile --cudabacktrace=all`",
    "gpu_metric_sample": "no counters of the GPU were sampled: `nsys profile --gpu-metrics-devices=all` does that "
    "(older: `--gpu-metrics-device=all`), as root or where the driver lets others",
    "kernel_counter": "no counters of kernels were recorded: torch.profiler has them with profiler_metrics of its "
    "experimental_config",
    "os_call": "no calls of the operating system were recorded: `nsys profile --trace=cuda,nvtx,osrt`",
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
    "sampled_frame": ("sample_summary",),
    "call_frame": ("call_stack_summary",),
    "gpu_metric_sample": ("kernel_metric_summary", "metric_over_time", "metric_summary", "range_metric_summary"),
    "kernel_counter": ("kernel_counter_summary",),
    "os_call": ("os_summary",),
}  # fmt: skip
_UNREAD = {  # facts of upgrades
    "sampled_frame": "samples of the CPU",
    "call_frame": "stacks of CUDA calls",
    "os_call": "calls of the operating system",
    "kernel_counter": "hardware counters of kernels",
}
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


def how_to_record(recorder: str) -> str:
    """What to record GPU work with, of a file of nsys or torch.profiler."""
    by_torch = "torch.profiler, activities=[CPU, CUDA]"
    if recorder == "chrome trace":
        return f"{by_torch}, or nsys profile"
    return by_torch if recorder == "torch.profiler" else "nsys profile --trace=cuda,nvtx"


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
            recorders = database.rows("select distinct recorder from _recorder order by 1")
            if unread := database.rows(
                "select note from source_fact where section = 'lost' and item = ?", _UNREAD.get(needed, "")
            ):
                return f"{view} has no rows: the lorabench that made this database did not read any; {unread[0][0]}"
            ways = dict.fromkeys(how_to_record(recorder) for (recorder,) in recorders)
            return f"{view} has no rows: {_NEEDS[needed].format(' or '.join(ways))}"
    return f"{view} has no rows: {_OTHERWISE[view]}" if view in _OTHERWISE else f"{view} has no rows"
