"""What a page says of the kernel that is chosen: its names, its durations, who launched it."""

from collections.abc import Callable
from typing import Any

from .cells import shapes
from .section import Source

Row = dict[str, Any]
BIN_CNT = 24  # of _page_kernel_duration


def kernels(source: Source) -> dict[str, Row]:
    """Of each of the kernels with the most time, by its short name, all that its drawer shows."""
    rows = source.rows("select * exclude source_id from _page_kernel where source_id = {id}")
    if not rows:
        return {}
    classes = {row["name_id"]: row["class"] for row in source.rows(
        "select distinct on (name_id) name_id, class from _page_name where source_id = {id} order by name_id, class"
    )}  # fmt: skip
    bins = _by_kernel(source, "_page_kernel_duration", lambda row: (row["bin"], row["kernel_cnt"]))
    owners = _by_kernel(source, "_page_kernel_owner", lambda row: [row["path"], row["kernel_cnt"], row["kernel_ns"]])
    operators = _by_kernel(
        source, "_page_kernel_operator",
        lambda row: [row["operator"], shapes(row["input_shapes"])[:200], row["kernel_cnt"], row["kernel_ns"]],
    )  # fmt: skip
    return {
        row["short_name"]: {
            "full": row["full_name"], "class": classes.get(row["name_id"], ""), "cnt": row["kernel_cnt"],
            "ns": row["kernel_ns"], "share": row["kernel_frac"], "mean": round(row["mean_ns"]),
            "median": round(row["median_ns"]), "min": row["min_ns"], "max": row["max_ns"],
            "bins": _filled(bins.get(row["name_id"], [])), "ranges": owners.get(row["name_id"], []),
            "operators": operators.get(row["name_id"], []),
        }
        for row in rows
    }  # fmt: skip


def _by_kernel(source: Source, view: str, told: Callable[[Row], Any]) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = {}
    for row in source.rows(f"from {view} where source_id = {{id}}"):
        found.setdefault(row["name_id"], []).append(told(row))
    return found


def _filled(bins: list[tuple[int, int]]) -> list[int]:
    """Counts of all bins, 0 where none is; one where all executions were equally long."""
    counts = dict(bins)
    return [counts.get(number, 0) for number in range(BIN_CNT if len(counts) > 1 else 1)]
