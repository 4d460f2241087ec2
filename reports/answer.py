"""The answer on one screen: where the time goes, and what a change would save.

Every number is one of a public view; the parts of the first line add up to the device's window.
"""

import textwrap
from collections.abc import Iterator
from typing import Any

from rich.cells import cell_len

from ..analyze.store.database import Database
from . import sources
from .units import keep_begin, keep_end, said_ns

WIDTH = 80
_FINDING_CNT, _CLASS_CNT = 3, 5
_CHANGE_WIDTH, _NAME_WIDTH = 46, 20
_LEAST_SHOWN = 0.001  # of a step: what a change saves at least to have a line of its own
_CLEAR_FRAC = 0.6  # of the window: what takes so much is the limit, whatever comes second
_MUCH_FRAC = 0.15  # of the kernels' time: what a kernel takes at least to be named
_LEAST_FRAC = 0.01  # of the window: what saves less is not worth a line
_RECORDERS = {"nsys": "nsys", "kineto": "torch.profiler", "snapshot": "allocator snapshot"}
# Of gpu_timeline_summary and idle_summary: what is the largest part of the window, and what that means.
_MEANINGS = {
    "compute": "GPU-bound: it computes {:.0%} of the time",
    "communication": "communication-bound: {:.0%} of the time it does nothing else",
    "copies": "copy-bound: {:.0%} of the time copies run with nothing beside them",
    "host": "the CPU is late: {:.0%} of the time the GPU waits for it",
    "dependency": "waiting: {:.0%} of the time the GPU is idle though the next work was not late",
    "kernel_wait": "many tiny kernels: {:.0%} of the time is the distance between them",
}

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

_ASKED = (
    "gpu_timeline_summary", "idle_summary", "step_statistics", "kernel_class", "_predicted_finding", "memory_peak",
    "range_summary", "kernel_summary", "step_summary",
)  # fmt: skip
Row = dict[str, Any]


def answer(database: Database) -> Row:
    """What `lines` says, as one JSON object. Raises InputError for a database without inputs that could be read."""
    source_id = sources.shown(database)
    with database.computing_once(_ASKED):
        return _answer(database, source_id)


def _answer(database: Database, source_id: int) -> Row:
    def rows(statement: str) -> list[Row]:
        return database.dicts(statement.replace("{id}", str(source_id)))

    ((name, kind, rank),) = database.rows(f"select name, kind, rank from source where source_id = {source_id}")
    ((input_cnt,),) = database.rows("select count(*) from source where kind is not null")
    devices = rows("from gpu_timeline_summary where source_id = {id} order by device_id")
    return {
        "input": name,
        "recorder": _RECORDERS.get(kind, kind),
        "rank": rank,
        "input_cnt": input_cnt,
        "device_cnt": len(devices),
        "device": next((row["device_name"] for row in devices if row["device_name"]), None),
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


def lines(found: Row) -> Iterator[str]:
    """The answer for a person: lines of at most 80 characters."""
    known = ", ".join(_headline(found))
    yield _cut(f"{_middle(found['input'], max(WIDTH - len(known) - 2, _NAME_WIDTH))}: {known}")
    parts = found["parts"]
    if not parts:
        is_timed = found["recorder"] != _RECORDERS["snapshot"]
        yield "no GPU work in this file: times are the CPU's" if is_timed else "memory alone: a snapshot has no work"
        for row in found["ranges"]:
            yield _columns(f"  {keep_end(row['path'], 56)}", f"{said_ns(row['self_wall_ns'])} of its own")
    else:
        largest = max(parts, key=lambda name: parts[name])
        yield _cut(_meaning(parts) + _dominant(largest, found["kernel"]))
        idle = {name: parts[name] for name in ("host", "dependency", "kernel_wait") if parts.get(name)}
        busy = {name: parts[name] for name in ("compute", "communication", "copies") if parts[name]}
        yield _cut(f"  busy {sum(busy.values()):6.1%} = {_sum(busy)}")
        yield _cut(f"  idle {sum(idle.values()):6.1%} = {_sum(idle)}" if idle else "  idle   0.0%")
        classes = [f"{row['class']} {row['gpu_op_frac']:.0%}" for row in found["classes"][:_CLASS_CNT]]
        yield _cut(f"  the GPU's work: {', '.join(classes)}")
        yield from _warm(found["warm"])
    if found["phases"]:
        yield _cut(f"  a step on the CPU: {', '.join(f'{name} {part:.0%}' for name, part in found['phases'].items())}")
    for row in found["memory"][:2]:
        yield _cut(
            f"  memory of {row['device']}: {row['peak_bytes'] / 2**20:,.0f} MiB at the peak, most of it "
            f"{row['largest']} ({row['largest_bytes'] / 2**20:,.0f} MiB)"
        )
    yield from _first(found["findings"], found["window_ns"])
    if found["input_cnt"] > 1:
        yield _cut(f"{found['input_cnt']} inputs; this is one of them: --report rank_summary sets ranks side by side")


def _meaning(parts: dict[str, float]) -> str:
    """What the largest part of the window means; of two that are both large that there are two."""
    first, *others = sorted(parts, key=lambda name: -parts[name])
    if others and parts[first] < _CLEAR_FRAC and parts[others[0]] > parts[first] / 2:
        names = [name.replace("_", " ") for name in (first, others[0])]
        return f"no single limit: {names[0]} {parts[first]:.0%} of the time, {names[1]} {parts[others[0]]:.0%}"
    return _MEANINGS[first].format(parts[first])


def _warm(warm: Row | None) -> Iterator[str]:
    """What holds of the steps behind a first one that was much slower."""
    if warm is not None and warm["busy_frac"] is not None:
        yield _cut(
            f"  once warm: {warm['step_cnt']} steps of {said_ns(warm['wall_ns'])}, GPU busy {warm['busy_frac']:.1%}; "
            f"step {warm['first_step']} took {said_ns(warm['first_ns'])}"
        )


def _dominant(largest: str, kernel: Row | None) -> str:
    """Of a GPU that computes most of the time the kernel that takes much of it."""
    if largest != "compute" or kernel is None or kernel["kernel_frac"] < _MUCH_FRAC:
        return ""
    return f", {kernel['kernel_frac']:.0%} of it in {kernel['short_name']}"


def _headline(found: Row) -> Iterator[str]:
    if steps := found["steps"]:
        spread = f" (p95 {said_ns(steps['p95_ns'])})" if steps["step_cnt"] > 1 else ""
        yield f"{steps['step_cnt']} step{'s' if spread else ''} of {said_ns(steps['p50_ns'])}{spread}"
    if found["window_ns"]:
        yield f"{said_ns(found['window_ns'])} recorded"
    if found["device"]:
        yield f"{found['device_cnt']} x {found['device']}" if found["device_cnt"] > 1 else str(found["device"])
    yield str(found["recorder"])


def _first(findings: list[Row], window_ns: int | None) -> Iterator[str]:
    worth = [
        row for row in findings
        if window_ns and (row["saving_ns"] is None or row["saving_ns"] >= _LEAST_FRAC * window_ns)
    ]  # fmt: skip
    if not worth:
        return
    yield _columns("what to do first", "would save")
    for number, row in enumerate(worth[:_FINDING_CNT], start=1):
        title = f"{number} {row['rule'].replace('_', ' ')}: "
        others = f" and {row['place_cnt'] - 1:,} more" if row["place_cnt"] > 1 else ""
        saving = "not known" if row["saving_ns"] is None else f"{row['saving_ns'] / window_ns:.1%}"
        if row["saving_ns"] is not None and not row["is_predicted"]:
            saving = f"at most {saving}"
        place = keep_end(row["place"] or "(outside all ranges)", WIDTH - len(title) - len(others) - len(saving) - 2)
        yield _columns(f"{title}{place}{others}", saving)
        yield _cut(f"  {row['evidence']}")
        yield from textwrap.wrap(row["advice"], WIDTH, initial_indent="  -> ", subsequent_indent="     ", max_lines=2,
                                 placeholder=" …")  # fmt: skip
    if len(worth) > _FINDING_CNT:
        yield f"and {', '.join(row['rule'].replace('_', ' ') for row in worth[_FINDING_CNT:])}"


def predictions(rows: list[Row]) -> Iterator[str]:
    """Rows of what_if for a person: of one input in lines of at most 80 characters, the largest saving first."""
    if not rows:
        yield "no change can be replayed: there is no GPU work and no input in this file"
        return
    known = [row for row in rows if row["saving_ns"] is not None]
    if known:
        before = said_ns(known[0]["step_ns"] + known[0]["saving_ns"])
        error = max(row["replay_error_frac"] or 0 for row in known)
        yield f"a step of {before}, replayed with an error of {error:.1%}; with a change it would take"
    said = None
    for row in rows:
        change = keep_end(row["change"], _CHANGE_WIDTH)
        if row["saving_ns"] is None:
            yield _columns(f"  {change}", "unknown to one rank")
        elif abs(row["saving_frac"]) >= _LEAST_SHOWN or len(rows) == 1:
            yield _columns(f"  {change}", f"{said_ns(row['step_ns'])}  saves {row['saving_frac']:6.1%}")
        else:
            continue
        if row["note"] != said:
            yield from textwrap.wrap(row["note"], WIDTH, initial_indent="      ", subsequent_indent="      ")
        said = row["note"]
    if none := [row["change"] for row in known if abs(row["saving_frac"]) < _LEAST_SHOWN and len(rows) > 1]:
        yield from textwrap.wrap(f"less than {_LEAST_SHOWN:.1%}: {', '.join(none)}", WIDTH, subsequent_indent="  ")


def next_steps(inputs: str) -> list[str]:
    """What to type next."""
    commands = ("report {} --open", "what-if {}", 'query {} "from finding"')
    width = WIDTH - len("next: lorabench ") - max(map(len, commands))
    named = inputs if len(inputs) <= width else "INPUT"
    return [f"{'' if number else 'next:':6}lorabench {text.format(named)}" for number, text in enumerate(commands)]


def _sum(parts: dict[str, float]) -> str:
    return " + ".join(f"{name.replace('_', ' ')} {value:.1%}" for name, value in parts.items())


def _middle(name: str, places: int) -> str:
    """A file's name that keeps both ends."""
    half = places // 2
    return name if cell_len(name) <= places else keep_begin(name, half) + keep_end(name, places - half)[1:]


def _columns(left: str, right: str) -> str:
    left = keep_begin(left, WIDTH - cell_len(right) - 1)
    return left + " " * (WIDTH - cell_len(right) - cell_len(left)) + right


def _cut(line: str) -> str:
    return keep_begin(line, WIDTH)
