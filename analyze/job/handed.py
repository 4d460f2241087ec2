"""What a rank hands on to its job: all that does not grow with the trace, and what is compared across ranks.

the part of one rank ──► tables and views by name ──► result ──► the job's database, where views that compare ranks
                                                                 read them
"""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from ... import sql
from ...errors import CorruptInputError
from ...sql import quoted
from .. import fillers
from ..store.database import Database

if TYPE_CHECKING:
    import pyarrow as pa

VERSION = 13  # of what is handed on, beside the statements of the views

# Of rows about one input alone those of which a rank has many: they stay in its result, and are read for who asks.
LARGE = (
    "range_summary", "operator_summary", "kernel_summary", "kernel_class", "_kernel_histogram", "critical_path",
    "range_metric_summary", "kernel_counter_summary",
)  # fmt: skip
TABLES = ("source", "source_fact", "device", "collective")
# Of the others those of all inputs stand one after another in the database of the job.
VIEWS = (
    "adapter_summary", "api_summary", "call_stack_summary", "exposed_communication", "gpu_timeline_summary",
    "idle_summary", "kernel_metric_summary", "lora_summary", "memory_copy_summary", "memory_finding",
    "memory_fragmentation", "memory_operation_summary", "memory_peak", "memory_phase", "metric_summary", "os_summary",
    "out_of_memory", "phase_summary", "pipeline_bubble", "replay", "sample_summary", "steady_state", "step_statistics",
    "step_summary", "sync_summary", "trace_info", "unattributed", "what_if",
    # what views that compare ranks read
    "_step", "_rank_part", "_rank_stretch", "_rank_wait", "_rank_device", "_extent", "_source_with_gpu", "_steady_time",
    "_work_process", "_cpu_timeline", "_run_launches", "_steady_class", "_steady_kernel", "_kernel_total",
    "_predicted_finding", "_validation", "_mean_step",
    # what the answer says of an input
    "_answer_whole", "_answer_critical", "_answer_call", "_phase_work", "_answer_range", "_finding_place",
    "_work_missing", "_work_dropped", "_launch_missing", "_answer_tail",
    "_answer_counter",
)  # fmt: skip
# Computed of those when ranks are put together.
MERGED = ("_straggler", "_straggler_place", "straggler")
MATCHED = ("matched_collective", "clock")
CONSTANT = ("threshold", "kernel_class_rule", "device_peak", "memory_category")  # the same in every database
# Have a row for each operation, allocation or bin of time, or for each kernel of each path or thread: they stay with
# the rank.
ROW_LEVEL = (
    "idle_gap", "launch_outlier", "launch_summary", "launch_trace", "memory_bandwidth", "memory_by_category",
    "memory_copy", "memory_timeline", "metric_over_time", "nvtx_projection", "queue_length", "range_instance",
    "range_kernel_summary", "utilisation_over_time",
)  # fmt: skip

# What a single rank has no rows of, so that what is compared later is there: itself, and each collective as if matched.
_ALONE = {
    "_several_ranks": "select source_id, rank, kind, host from source where kind is not null",
    "matched_collective": "from _lone_collective",
}


def rows(database: Database) -> "Iterator[tuple[str, pa.Table]]":
    """What the database of one rank hands on, by name; of a view that cannot be computed a line of source_fact."""
    failed = []
    database.filling({name: partial(database.table, statement) for name, statement in _ALONE.items()})
    database.filling({name: partial(database.rows_of, name) for name in fillers.OF_RANKS}, fillers.OF_RANKS)
    with database.computing_once((*LARGE, *VIEWS)):
        for name in (*LARGE, *VIEWS):
            try:
                yield name, database.table(f"from {quoted(name)}")
            except CorruptInputError as error:
                failed.append((f"the view {name}", str(error)))
    values = ", ".join(f"(1, 'lost', {sql.literal(item)}, {sql.literal(text)}, null)" for item, text in failed)
    for name in TABLES:
        more = f" union all values {values}" if name == "source_fact" and failed else ""
        yield name, database.table(f"from {quoted(name)}{more}")
