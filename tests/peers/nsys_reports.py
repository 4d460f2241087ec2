"""What `nsys stats` prints, and the same numbers out of a lorabench database."""

import csv
import io
import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

from lorabench.analyze.store.database import Database

Row = dict[str, str | None]

# For each report: our query; the columns that name a row, then those that hold numbers, in nsys' spelling.
_STATS = """round(avg({0}), 1) as "Avg (ns)", round(median({0}), 1) as "Med (ns)", min({0}) as "Min (ns)",
    max({0}) as "Max (ns)", round(coalesce(stddev_samp({0}), 0), 1) as "StdDev (ns)\""""


def _exec_stats(letter: str, value: str) -> str:
    return ", ".join(
        f'{function} as "{letter}{name} (ns)"'
        for name, function in {
            "Avg": f"round(avg({value}), 1)", "Med": f"round(median({value}), 1)", "Min": f"min({value})",
            "Max": f"max({value})",
            "StdDev": f"round(coalesce(stddev_samp({value}), 0), 1)",
        }.items()
    )  # fmt: skip


ANCESTORS = """with recursive above(gpu_op_id, range_id) as (
    select gpu_op_id, range_id from launch_trace where rule = 'direct'
    union all
    select above.gpu_op_id, range_instance.parent_id
    from above join range_instance using (range_id)
    where range_instance.parent_id is not null
)"""

QUERIES: dict[str, str] = {
    "gpukernsum": f"""select printf('%4d %4d %4d', grid_x, grid_y, grid_z) as "GridXYZ",
        printf('%4d %4d %4d', block_x, block_y, block_z) as "BlockXYZ", kernel_name as "Name",
        count(*) as "Instances", sum(gpu_op_ns)::bigint as "Total Time (ns)", {_STATS.format("gpu_op_ns")},
        round(100 * sum(gpu_op_ns) / (select sum(kernel_ns) from kernel_summary), 1) as "Time (%)"
        from launch_trace where kind = 'kernel' group by all""",
    "cudaapisum": """select api_name as "Name", call_cnt as "Num Calls", call_ns as "Total Time (ns)",
        round(mean_ns, 1) as "Avg (ns)", round(median_ns, 1) as "Med (ns)", min_ns as "Min (ns)", max_ns as "Max (ns)",
        round(stddev_ns, 1) as "StdDev (ns)", round(100 * call_frac, 1) as "Time (%)" from api_summary""",
    "kernexecsum": f"""select pid as "PID", tid as "TID", device_id as "DevId", api_name as "API Name",
        kernel_name as "Kernel Name", count(*) as "Count", count(*) filter (late >= 0) as "QCount",
        {_exec_stats("T", "total")}, {_exec_stats("A", "launch_api_ns")}, {_exec_stats("Q", "queued")},
        {_exec_stats("K", "gpu_op_ns")}
        from (select *, kernel_start_time - call_api_end_time as late, if(late >= 0, queue_ns, null) as queued,
            greatest(call_api_end_time, kernel_end_time) - call_api_start_time as total from launch_trace
            where kind = 'kernel' and api_call_id is not null) group by all""",
    "nvtxkernsum": f"""{ANCESTORS}
        select r.text as "NVTX Range", r.style as "Style", l.pid as "PID", l.tid as "TID",
        l.kernel_name as "Kernel Name", count(distinct r.range_id) as "NVTX Inst",
        count(distinct l.gpu_op_id) as "Kern Inst", sum(l.gpu_op_ns)::bigint as "Total Time (ns)",
        {_STATS.format("l.gpu_op_ns")}
        from launch_trace as l left join above using (gpu_op_id)
        left join range_instance as r on r.range_id = above.range_id
        where l.kind = 'kernel' group by all""",
    "nvtxgpuproj": f"""{ANCESTORS},
        work as (
            select above.range_id, min(kernel_start_time) as first, max(kernel_end_time) as last,
                count(distinct correlation_id) as launches, count(*) as ops
            from above join launch_trace using (gpu_op_id) where kind <> 'graph' group by above.range_id
        )
        -- nsys knows direct work only; where a range has backward work, too, its columns are compared without
        select text as "Name", style as "Style", pid as "PID", tid as "TID", start_ns as "Orig Start (ns)",
        wall_ns as "Orig Duration (ns)", if(gpu_op_cnt = ops, first_gpu_start_ns, first) as "Projected Start (ns)",
        if(gpu_op_cnt = ops, gpu_span_ns, last - first) as "Projected Duration (ns)",
        launches as "NumGPUOps", depth as "Lvl"
        from range_instance join work using (range_id)""",
    "nvtxsum": f"""select text as "Range", style as "Style", count(*) as "Instances",
        sum(wall_ns)::bigint as "Total Time (ns)", {_STATS.format("wall_ns")},
        round(100 * sum(wall_ns) / (select sum(wall_ns) from range_instance), 1) as "Time (%)"
        from range_instance group by all""",
    "gpumemtimesum": """select operation_name as "Operation", operation_cnt as "Count",
        operation_ns as "Total Time (ns)", round(mean_ns, 1) as "Avg (ns)", round(median_ns, 1) as "Med (ns)",
        min_ns as "Min (ns)", max_ns as "Max (ns)", round(stddev_ns, 1) as "StdDev (ns)",
        round(100 * operation_frac, 1) as "Time (%)" from memory_operation_summary""",
    "gpumemsizesum": """select operation_name as "Operation", operation_cnt as "Count",
        round(bytes / 1e6, 3) as "Total (MB)", round(mean_bytes / 1e6, 3) as "Avg (MB)",
        round(median_bytes / 1e6, 3) as "Med (MB)", round(min_bytes / 1e6, 3) as "Min (MB)",
        round(max_bytes / 1e6, 3) as "Max (MB)", round(stddev_bytes / 1e6, 3) as "StdDev (MB)"
        from memory_operation_summary""",
}
KEYS: dict[str, tuple[str, ...]] = {
    "gpukernsum": ("Name", "GridXYZ", "BlockXYZ"),
    "cudaapisum": ("Name",),
    "kernexecsum": ("PID", "TID", "DevId", "API Name", "Kernel Name"),
    "nvtxkernsum": ("NVTX Range", "Style", "PID", "TID", "Kernel Name"),
    "nvtxgpuproj": ("Name", "Style", "PID", "TID", "Orig Start (ns)"),
    "nvtxsum": ("Range", "Style"),
    "gpumemtimesum": ("Operation",),
    "gpumemsizesum": ("Operation",),
}
# Columns that are names of rows in nsys' own numbering, or that the projection of a tie may order differently.
NOT_COMPARED = {"nvtxgpuproj": {"NumChild", "RangeId", "ParentId", "RangeStack"}}


@cache
def of_nsys(nsys: str, report: str, trace: Path) -> dict[tuple[str, ...], Row]:
    """Rows that `nsys stats` prints, by key; empty when it says that the file has no such data."""
    done = subprocess.run(
        [nsys, "stats", "--report", report, "--format", "csv", "--output", "-", str(trace)],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    _, _, table = done.stdout.partition("]... \n")
    if not table.strip() or "does not contain" in done.stdout or "SKIPPED" in done.stdout:
        return {}
    rows = list(csv.DictReader(io.StringIO(table.strip() + "\n")))
    return {_key(report, {k: None if v == "None" else v for k, v in row.items()}): row for row in rows}


def of_lorabench(report: str, database: Database) -> dict[tuple[str, ...], dict[str, Any]]:
    """The same from our views."""
    return {_key(report, row): row for row in database.query(QUERIES[report]).to_dicts()}


def _key(report: str, row: dict[str, Any]) -> tuple[str, ...]:
    """Versions of the API that nsys leaves in names, because it looks for four digits, are taken off: _v10000."""
    values = ("" if row[column] is None else str(row[column]) for column in KEYS[report])
    return tuple(re.sub(r"^(cu\w+)_v[0-9]{5}$", r"\1", value) for value in values)


def differences(report: str, theirs: Row, ours: dict[str, Any]) -> list[str]:
    """Columns in which two rows differ. nsys prints rounded decimals, so these are compared as far as printed."""
    return [
        f"{column}: nsys {theirs[column]}, lorabench {value}"
        for column, value in ours.items()
        if column not in KEYS[report]
        and column not in NOT_COMPARED.get(report, ())
        and not _same(theirs[column], value)
    ]


def _same(printed: str | None, value: Any) -> bool:
    if printed in (None, "", "None"):
        return value is None
    if "." not in str(printed):
        return int(str(printed)) == value
    decimals = len(str(printed).partition(".")[2])
    # one unit of the last printed digit: nsys and DuckDB may round a tie differently
    return value is not None and abs(float(str(printed)) - float(value)) < 1.01 * 10**-decimals
