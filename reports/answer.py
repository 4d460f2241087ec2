"""The answer: where the time goes, and what a change would save.

Every number is one of a public view; the parts of the first line add up to the device's window.
"""

from typing import Any

from ..analyze.store.database import Database
from . import sources

RECORDERS = {"nsys": "nsys", "kineto": "torch.profiler", "snapshot": "allocator snapshot"}

# Of each rule all that its places save together: they share no nanosecond.
FINDINGS = """
    select
        rule,
        sum(saving_ns)::bigint as saving_ns,
        count(*) as place_cnt,
        nullif(arg_max(coalesce(place, ''), (coalesce(saving_ns, 0), occurrence_cnt)), '') as place,
        arg_max(evidence, (coalesce(saving_ns, 0), occurrence_cnt)) as evidence,
        any_value(advice) as advice,
        bool_and(is_predicted) as is_predicted
    from _predicted_finding
    where source_id = {id} and (saving_ns > 0 or rule = 'dominant_kernel')
    group by rule
    order by 2 desc nulls last, rule"""
_PHASES = """
    select
        sum(wall_ns)::bigint as wall_ns,
        sum(data_ns)::bigint as data,
        sum(h2d_ns)::bigint as h2d,
        sum(forward_ns)::bigint as forward,
        sum(backward_ns)::bigint as backward,
        sum(optimizer_ns)::bigint as optimizer
    from step_summary
    where source_id = {id}"""
# Steps that are no outliers, where the first one is: what it takes says nothing of the others.
_WARM = """
    select first.step as first_step, first.wall_ns as first_ns, count(*) as step_cnt,
        median(other.wall_ns) as wall_ns,
        sum(other.gpu_busy_ns) / sum(other.wall_ns) / nullif(any_value(device.cnt), 0) as busy_frac
    from (
        select *, median(wall_ns) over () as median_ns, row_number() over (order by start_ns) as place,
            count(*) over () as cnt
        from step_summary
        where source_id = {id}
    ) as other
    join (from step_summary where source_id = {id} order by start_ns limit 1) as first on true
    join (select count(*) as cnt from gpu_timeline_summary where source_id = {id}) as device on true
    where other.place > 1 and other.place < other.cnt and other.wall_ns <= 2 * other.median_ns
        and first.wall_ns > 2 * other.median_ns
    group by first.step, first.wall_ns"""
_MEMORY = """
    select
        device,
        any_value(peak_bytes) as peak_bytes,
        arg_max(category, live_bytes) as largest,
        max(live_bytes) as largest_bytes
    from (
        select device, peak_bytes, category, sum(live_bytes)::bigint as live_bytes
        from memory_peak
        where source_id = {id}
        group by all
    )
    where peak_bytes >= 1048576 and category <> 'unknown'
    group by device
    order by device = 'cpu', device"""

_SLOWEST = "from _slowest_rank where kind = '{kind}'"
_UNFIT = """
    select rule, count(*) as input_cnt, any_value(example order by source_id) as example
    from validation
    where rule in ('other_job', 'rank_missing', 'rank_twice', 'steps_differ', 'collective_disagrees')
    group by rule
    order by rule"""

_ASKED = (
    "gpu_timeline_summary", "idle_summary", "step_statistics", "kernel_class", "_predicted_finding", "memory_peak",
    "range_summary", "kernel_summary", "step_summary",
)  # fmt: skip
Row = dict[str, Any]


def answer(database: Database) -> Row:
    """All that the screen says (answer_text), as one JSON object.

    Raises InputError for a database without inputs that could be read.
    """
    source_id = sources.shown(database)
    ((rank_cnt,),) = database.rows("select count(distinct rank) from source where kind is not null")
    with database.computing_once((*_ASKED, "straggler") if rank_cnt > 1 else _ASKED):
        return _answer(database, source_id, rank_cnt)


def _answer(database: Database, source_id: int, rank_cnt: int) -> Row:
    def rows(statement: str) -> list[Row]:
        return database.dicts(statement.replace("{id}", str(source_id)))

    ((name, kind, rank),) = database.rows(f"select name, kind, rank from source where source_id = {source_id}")
    ((input_cnt,),) = database.rows("select count(*) from source where kind is not null")
    devices = rows("from gpu_timeline_summary where source_id = {id} order by device_id")
    return {
        "input": name,
        "recorder": RECORDERS.get(kind, kind),
        "rank": rank,
        "input_cnt": input_cnt,
        "device_cnt": len(devices),
        "device": next((row["device_name"] for row in devices if row["device_name"]), None),
        "has_times": bool(devices)
        or bool(
            rows(
                "select 1 from range where source_id = {id} union all "
                "select 1 from api_call where source_id = {id} union all "
                "select 1 from gpu_op where source_id = {id} union all "
                "select 1 from _input_window where source_id = {id} limit 1"
            )
        ),
        "steps": next(iter(rows("select step_cnt, p50_ns, p95_ns from step_statistics where source_id = {id}")), None),
        "window_ns": devices[0]["window_ns"] if devices else None,
        "parts": _parts(devices, rows("from idle_summary where source_id = {id}")),
        "classes": rows(
            "select class, sum(gpu_op_frac) as gpu_op_frac from kernel_class where source_id = {id} "
            "group by class order by gpu_op_frac desc"
        ),
        "kernel": next(
            iter(
                rows(
                    "select short_name, kernel_ns / sum(kernel_ns) over () as kernel_frac from kernel_summary "
                    "where source_id = {id} order by kernel_ns desc limit 1"
                )
            ),
            None,
        ),
        "warm": next(iter(rows(_WARM)), None),
        "phases": _phases(rows(_PHASES)),
        "findings": rows(FINDINGS),
        "slowest": next(iter(rows(_SLOWEST.replace("{kind}", str(kind)))), None) if rank_cnt > 1 else None,
        "unfit": rows(_UNFIT) if rank_cnt > 1 else [],
        "memory": rows(_MEMORY),
        "ranges": rows(
            "select path, wall_ns, self_wall_ns from range_summary where source_id = {id} and kind = 'annotation' "
            "order by self_wall_ns desc limit 3"
        ),
    }


def _parts(devices: list[Row], idle: list[Row]) -> dict[str, float]:
    """Shares of the window, the mean of the devices': what they do, exposed, and why they are idle."""
    windows = sum(row["window_ns"] for row in devices)
    if not windows:
        return {}
    found = {
        "compute": sum(row["compute_ns"] for row in devices),
        "communication": sum(row["exposed_communication_ns"] for row in devices),
        "copies": sum(row["exposed_memory_ns"] for row in devices),
    }
    for row in idle:
        found[row["cause"]] = found.get(row["cause"], 0) + row["idle_ns"]
    return {name: value / windows for name, value in found.items()}


def _phases(rows: list[Row]) -> dict[str, float]:
    """Shares of the steps' time on the CPU, of the phases that are known."""
    sums = dict(rows[0])
    wall = sums.pop("wall_ns")
    return {name: value / wall for name, value in sums.items() if value} if wall else {}
