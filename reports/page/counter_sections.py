"""What the GPUs' hardware counters say: over time, and of each kernel."""

from collections.abc import Iterable
from typing import Any

from . import figures
from .section import Section, Source, lines_of, section

_DEVICE_CNT, _BAR_CNT = 4, 12
_ALONE = 0.5  # of a kernel's time: what is mixed more with others is not drawn
_LINES = {
    "sm_active_frac": "multiprocessors at work", "tensor_active_frac": "tensor cores at work",
    "dram_frac": "memory bandwidth",
}  # fmt: skip
_COLUMNS = (
    "short_name, sampled_ns, limited_by, sampled_frac, alone_frac, sm_active_frac, sm_issue_frac, tensor_active_frac, "
    "dram_read_frac + dram_write_frac as dram_frac"
)

Rows = list[dict[str, Any]]


def counter_sections(source: Source) -> Iterable[Section | None]:
    """Nothing where no counters were sampled."""
    rows = source.rows("select * exclude source_id from _page_counter where source_id = {id}")
    if not rows:
        return
    yield section(
        "counters", "GPU counters over time",
        "How much of what the GPU can do at most is in use, by its hardware counters, on average in each time bin.",
        "metric_over_time", rows,
        figures.lines(*lines_of(_lines(rows), "line", "frac"), "of the most possible", percent=True),
        keys={"start_ns": "begin"}, follows=("time",),
        rows_are=source.where_other("metric_over_time", rows, "also of times in which no sample begins"),
    )  # fmt: skip
    yield from _kernels(source)


def _kernels(source: Source) -> Iterable[Section | None]:
    rows = source.rows(
        f"select {_COLUMNS} from kernel_metric_summary where source_id = {{id}} order by sampled_ns desc, kernel_name"
    )
    if not rows:
        return
    known = [row for row in rows if row["alone_frac"] >= _ALONE and any(row[column] is not None for column in _LINES)][
        :_BAR_CNT
    ]
    columns = [column for column in _LINES if any(row[column] is not None for row in known)]
    figure = figures.side_by_side(known, "short_name", columns, "%", 100) if known else None
    for trace, column in zip(figure["data"] if figure else (), columns, strict=True):  # what is not known has no bar
        trace["x"] = [None if row[column] is None else x for x, row in zip(trace["x"], known, strict=True)]
        trace["name"] = _LINES[column]
    yield section(
        "kernel-counters", "Kernels by GPU counters",
        "The kernels with the most time, and how much of the GPU's units they use while they run. “Alone” is the part "
        "of their time in samples in which nothing else ran: below half of it the values say more of what runs beside "
        "them, and have no bar." + source.apart(),
        "kernel_metric_summary", rows,
        figure,
        keys={"short_name": "kernel"},
    )  # fmt: skip


def _lines(rows: Rows) -> Rows:
    """A row for each time and line: what is known of one device, of several how many multiprocessors are at work."""
    devices = sorted({row["device_id"] for row in rows})[:_DEVICE_CNT]
    said = [column for column in _LINES if any(row[column] is not None for row in rows)]
    if len(devices) > 1:
        said = said[:1]
    return [
        {
            "start_ns": row["start_ns"], "frac": row[column],
            "line": _LINES[column] if len(devices) == 1 else f"device {row['device_id']}: {_LINES[column]}",
        }
        for row in rows if row["device_id"] in devices for column in said
    ]  # fmt: skip
