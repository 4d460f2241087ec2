"""The answer: where the time goes, and what a change would save.

Every number is one of a public view; the parts of the first line add up to the device's window.
"""

from collections.abc import Sequence
from typing import Any

from ...analyze.store.database import Database
from ..tables import sources
from ..tables.units import keep_end, said_ns
from . import rank_picture

IDLE = ("host", "dependency", "in_turn", "kernel_wait")  # of the parts: why a device is idle, by launches
BUSY = ("compute", "rank_wait", "communication", "copies")  # the others, of a device that works
OUTSIDE = "(outside all ranges)"
LEAST_FRAC = 0.01  # of the window: what saves less is not worth a line

# What is missing in the recording comes first: the rest is to be read with it.
FINDINGS = """
    select * exclude source_id
    from _answer_finding
    where source_id = {id}
    order by starts_with(rule, 'unrecorded') desc, saving_ns desc nulls last, rule"""
_PHASES = "select * exclude source_id from _phase_work where source_id = {id}"
_GPU_PHASES = """
    select phase, gpu_op_frac
    from phase_summary
    where source_id = {id} and gpu_op_frac > 0"""
_CRITICAL = "select gpu_frac, saved_frac, paced_frac from _answer_critical where source_id = {id}"
_UNRECORDED = """
    select rule, sum(saving_ns) as ns
    from _judged_gap
    where source_id = {id} and starts_with(rule, 'unrecorded')
    group by rule
    order by ns desc"""
_IN_TURN = """
    select cause::varchar as cause, sum(saving_ns) as ns
    from _judged_gap
    where source_id = {id} and rule = 'devices_in_turn'
    group by cause"""
_STEPS = "select * exclude source_id from _answer_step where source_id = {id}"
_MEMORY = """
    select memory.* exclude source_id, if(source_id = {id}, null, source.name) as input
    from _answer_memory as memory
    join source using (source_id)
    where source_id = {memory}
    order by device = 'cpu', device"""
# of a GPU's memory where there is one: what a CPU holds beside it runs out last
_MEMORY_FINDINGS = """
    select * exclude source_id
    from _answer_memory_finding
    where source_id = {memory} and (device <> 'cpu' or '{device}' = 'cpu')"""
_RANGES = """
    select * exclude source_id
    from _answer_range
    where source_id = {id} and coalesce(open_frac, 1) >= 0.005  -- else 'open 0 % of the time'
    order by self_wall_ns desc, path"""
_NOTHING_UNCOLLECTED = "select 0 as uncollected_cnt, false as is_accelerator_unread, false as is_cut_off"
_UNCOLLECTED = """
    select count(*)::bigint as uncollected_cnt, {id} in (from _accelerator_unread) as is_accelerator_unread,
        {id} in (from _cut_off) as is_cut_off
    from api_call join name using (name_id) where source_id = {id} and gives_work(text)"""
_LOST = """
    select source.name as input, item, value, note
    from source_fact
    join source using (source_id)
    where section = 'lost'
    order by source_id, item"""
_CALLS = "select * exclude source_id from _answer_call where source_id = {id} order by call_ns desc, api_name"
# why CUDA's events are missing; that a driver is too new explains the errors behind it
_DIAGNOSTICS = """
    select text
    from _answer_diagnostic
    where source_id = {id}
    order by is_unsupported desc, item, text
    limit 2"""
_CLOCKS = "select shift_ns from _clock_shift where source_id = {id}"
MEAN_WINDOW = "select window_ns::bigint as window_ns from _mean_window where source_id = {id}"
_LACKS = {
    "tail": "select tail_ns, making_ns from _answer_tail where source_id = {id}",
    "cut_off": "select * exclude source_id from _work_missing where source_id = {id}",
    "dropped": "select * exclude source_id from _work_dropped where source_id = {id}",
    "counters": "select * exclude source_id from _answer_counter where source_id = {id}",
    "unlaunched": "select * exclude source_id from _launch_missing where source_id = {id}",
}
_STEADY = """
    select is_steady, cold_ns, has_rest, recorded_ns, end_ns - start_ns as window_ns
    from _steady_time
    where source_id = {id}"""
_WHOLE = "select * exclude source_id from _answer_whole where source_id = {id}"
_UNPROFILED = "select * exclude source_id from _answer_unprofiled where source_id = {id}"
_SLOWEST = "from _slowest_rank where kind = '{kind}'"
_PIPELINE = """
    select max(stage_cnt) as stage_cnt, avg(bubble_frac) as bubble_frac, max(ideal_frac) as ideal_frac,
        max(micro_batch_cnt) as micro_batch_cnt
    from pipeline_bubble
    where bubble_frac is not null
    having count(*) > 0"""
_ALIKE = "from _answer_alike where kind = '{kind}'"
_UNFIT = "from _answer_unfit order by rule"

_ASKED = (
    "_steady_time", "steady_state", "_steady_class", "_steady_kernel", "_predicted_finding",
    "memory_peak", "range_summary", "step_summary", "_clock_shift",
)  # fmt: skip
# Of the parts of the first line the columns of steady_state.
_PARTS = {
    "compute": "compute_ns", "communication": "exposed_communication_ns", "rank_wait": "rank_wait_ns",
    "copies": "exposed_memory_ns",
    "host": "host_idle_ns", "dependency": "dependency_idle_ns", "kernel_wait": "kernel_wait_ns",
}  # fmt: skip
_IS_BEFORE = ("long_idle_gap", "long_dependency")  # the work of the place ends the gap: the CPU may have been elsewhere
_ENDS_RUNS = ("out_of_memory", "growth")  # sooner or later
_ONCE = "paid once"  # in an advice
_NOTHING = 1e-9  # what is left of a part that others are taken from
MOSTLY = 0.7  # of what ranks that are late cost: where the first has less, others are late as well
_HARDLY_TIMES = 1000  # as much was recorded as there is GPU work: nothing done about that changes what a run takes
_HALF = 0.5
_LITTLE_TIMES = 20  # as much was recorded as there is GPU work: what the CPU does around it is said
Row = dict[str, Any]


def worth(findings: list[Row], window_ns: int) -> list[Row]:
    """Those of FINDINGS that are worth a line: what saves a hundredth of the time, or it is not known how much."""
    return [row for row in findings if row["saving_ns"] is None or row["saving_ns"] >= LEAST_FRAC * window_ns]


def memory_worth(findings: list[Row], is_asked: bool, is_alone: bool) -> list[Row]:
    """Those of memory_finding worth a line: all where nothing is said of times (`is_alone`).

    Else what ends a run sooner or later, and what holds most where that is half of the peak and people asked for it.
    """
    if is_alone:
        return findings
    ends = [row for row in findings if row["rule"] in _ENDS_RUNS]
    largest = next((row for row in findings if row["rule"] not in _ENDS_RUNS), None)
    return ends + ([largest] if is_asked and largest and largest["severity"] == "high" else [])


def is_hardly_used(steady: Row | None, whole_ns: int | None) -> bool:
    """Whether the GPU's work is next to nothing of what was recorded: of a row of _STEADY and how much that is."""
    return steady is not None and (whole_ns or 0) > _HARDLY_TIMES * steady["recorded_ns"]


def window_ns(found: Row) -> int | None:
    """What savings are shares of: the mean window of the devices, without one the time that is judged."""
    known: int | None = found["window_ns"] or (found["steady"] or {}).get("window_ns")
    return known


def has_work(found: Row) -> bool:
    """Whether there is GPU work that is worth a word."""
    return bool(found["parts"]) and not is_hardly_used(found["steady"], found["whole_ns"])


def where(finding: Row) -> tuple[str, str, str]:
    """Where a finding of FINDINGS is: words, a place, words. Of many places that save little, what is around most."""
    if _is_scattered(finding):
        count = f"{finding['place_cnt']:,} places"
        return (f"{count}, most in ", finding["within"], "") if finding["within"] else (count, "", "")
    others = f" and {finding['place_cnt'] - 1:,} more" if finding["place_cnt"] > 1 else ""
    are_ranks = others and finding["rule"] == "straggler_rank"
    if are_ranks and finding["are_in_turn"] and finding["place_saving_ns"] < MOSTLY * finding["saving_ns"]:
        others += ", in turn"
    return "", finding["place"] or OUTSIDE, others


def bound(finding: Row) -> str:
    """What stands before a saving of FINDINGS: 'at most', 'once' (a longer run pays no more) or ''."""
    if finding["is_once"]:
        return "once"
    return "" if finding["is_predicted"] else "at most"


def part(finding: Row, window_ns: int | None, place_width: int | None = None) -> str:
    """How much of what a finding of FINDINGS saves is at the place that its evidence is about; "" where all of it is.

    Of a longer place the end.
    """
    if finding["place_cnt"] == 1 or not finding["saving_ns"] or not window_ns:
        return ""
    share = f"{(finding['place_saving_ns'] or 0) / window_ns:.1%}"
    if _ONCE in finding["advice"] and not finding["is_once"]:  # the rest comes again
        share += " once"
    if not _is_scattered(finding):
        return f"{share} here; "
    place = finding["place"] or OUTSIDE
    preposition = "before" if finding["rule"] in _IS_BEFORE else "in"
    return f"{share} {preposition} {place if place_width is None else keep_end(place, place_width)}: "


def _is_scattered(finding: Row) -> bool:
    """Whether no range has most of what a finding saves."""
    return (
        finding["place_cnt"] > 1
        and finding["within"] is not None
        and 2 * (finding["place_saving_ns"] or 0) < (finding["saving_ns"] or 0)
    )


def cause(slowest: Row, place_width: int | None = None) -> str:
    """What _slowest_rank spent more on than the others and where, "" if not known; of a longer place the end."""
    if not slowest["cause"]:
        return ""
    text = f"{slowest['cause'].replace('_', ' ')}, {said_ns(slowest['cause_ns'])} more than the others"
    if not (place := slowest["cause_place"]):
        return text
    place = place if place_width is None else keep_end(place, place_width)
    if slowest["cause"].startswith("idle"):  # where the CPU was says what it did, not how long
        return f"{text}; in the longest gap its CPU is in {place}"
    part = f" {said_ns(slowest['place_ns'])} of it" if slowest["place_ns"] < slowest["cause_ns"] else ""
    return f"{text},{part} in {place}"


def answer(database: Database, rank: int | None = None) -> Row:
    """All that the screen says (answer_text) of the input to show, or of a rank, as one JSON object.

    Raises InputError for a database without inputs that could be read, UsageError for a rank that is not there.
    """
    return database.once("answer" if rank is None else f"answer-{rank}", lambda: _computed(database, rank))


def _computed(database: Database, rank: int | None) -> Row:
    source_id = sources.shown(database, rank)
    ((rank_cnt,),) = database.rows("select count(distinct rank) from source where kind is not null")
    with database.computing_once((*_ASKED, "straggler") if rank_cnt > 1 else _ASKED):
        return _answer(database, source_id, rank_cnt)


def _about(database: Database, source_id: int) -> tuple[Row, str]:
    """What the input is, among how many, and its kind."""
    ((name, kind, rank, world_size, recorder),) = database.rows(
        "select name, kind, rank, world_size, recorder from source join _recorder using (source_id) "
        f"where source_id = {source_id}"
    )
    ((input_cnt,),) = database.rows("select count(*) from source where kind is not null")
    ((fitting_cnt,),) = database.rows(f"select count(distinct rank) from source where {sources.counting(database)}")
    about = {
        "input": name, "recorder": recorder, "rank": rank, "rank_cnt": fitting_cnt, "world_size": world_size,
        "input_cnt": input_cnt,
    }  # fmt: skip
    return about, kind


def _answer(database: Database, source_id: int, rank_cnt: int) -> Row:
    def rows(statement: str) -> list[Row]:
        return database.dicts(statement.replace("{id}", str(source_id)))

    about, kind = _about(database, source_id)
    shift = next((row["shift_ns"] for row in rows(_CLOCKS)), None)
    devices = rows("from steady_state where source_id = {id} order by device_id")
    steady = next(iter(rows(_STEADY)), None)
    (whole,) = rows(_WHOLE)
    whole_ns = whole["whole_ns"]
    missing, has_launches = rows(_UNRECORDED), bool(whole["has_launches"])
    phases, recompute_frac = _phases(rows(_PHASES))
    critical = next(iter(rows(_CRITICAL)), dict.fromkeys(("gpu_frac", "saved_frac", "paced_frac")))
    share = (steady["recorded_ns"] / whole_ns if whole_ns else 1.0) if devices and steady else 0.0
    is_little = share < 1 / _LITTLE_TIMES
    return {
        **about,
        "device_cnt": len(devices),
        "process_cnt": whole["process_cnt"],
        "device": next((row["device_name"] for row in devices if row["device_name"]), None),
        "has_times": bool(
            rows(
                "select 1 from _steady_time where source_id = {id} union all "
                "select 1 from api_call where source_id = {id} limit 1"
            )
        ),
        **rows(_UNCOLLECTED if not devices else _NOTHING_UNCOLLECTED)[0],
        "steps": next(iter(rows(_STEPS)), None),
        **rows(_UNPROFILED)[0],
        "window_ns": rows(MEAN_WINDOW)[0]["window_ns"] if devices else None,
        "whole_ns": whole_ns,
        "parts": _parts(devices, shift is None and has_launches, missing, rows(_IN_TURN)),
        "steady": steady,
        "is_little": is_little,
        "calls": rows(_CALLS) if share < _HALF else [],
        "classes": rows(
            "select class, gpu_op_frac from _steady_class where source_id = {id} order by gpu_op_frac desc"
        ),
        "kernel": next(iter(rows("select short_name, kernel_frac from _steady_kernel where source_id = {id}")), None),
        "critical_gpu_frac": critical["gpu_frac"],
        "kernels_frac": critical["saved_frac"],
        "paced_frac": critical["paced_frac"],
        "unrecorded": next(iter(missing), None),
        "clock_shift_ns": shift,
        "has_launches": whole["has_launches"],
        **{name: next(iter(rows(statement)), None) for name, statement in _LACKS.items()},
        "phases": phases,
        "recompute_frac": recompute_frac,
        "gpu_phases": {row["phase"]: row["gpu_op_frac"] for row in rows(_GPU_PHASES)} if devices else {},
        "findings": [] if devices and is_hardly_used(steady, whole_ns) else rows(FINDINGS),
        **_several(database, kind, rank_cnt),
        "pipeline": next(iter(rows(_PIPELINE)), None) if rows("select 1 from _stage limit 1") else None,
        "unfit": rows(_UNFIT) if rank_cnt > 1 else [],
        **_memory(database, source_id),
        "ranges": [] if devices else rows(_RANGES),
        "diagnostics": [] if devices else [row["text"] for row in rows(_DIAGNOSTICS)],
        "lost": rows(_LOST),
    }


def _several(database: Database, kind: str, rank_cnt: int) -> Row:
    """Of several ranks the one that holds the others up most and for which others waited when, else what they would
    save if they were alike; and how fast their collectives are.
    """
    if rank_cnt <= 1:
        return {"slowest": None, "rank_steps": None, "alike": None, "collectives": []}
    slowest, alike = (next(iter(database.dicts(s.replace("{kind}", kind))), None) for s in (_SLOWEST, _ALIKE))
    waited = database.dicts(rank_picture.WAITED.replace("{kind}", kind)) if slowest else []
    return {
        "slowest": slowest,
        "rank_steps": rank_picture.picture(waited),
        "alike": alike,
        "collectives": database.dicts("from _answer_collective"),
    }


def _memory(database: Database, source_id: int) -> dict[str, Any]:
    """How high memory came, and what rules say of it: see sources.of_memory."""
    known, device = sources.of_memory(database, source_id) or (source_id, "cpu")

    def rows(statement: str) -> list[Row]:
        filled = statement.replace("{id}", str(source_id)).replace("{memory}", str(known))
        return database.dicts(filled.replace("{device}", device))

    return {
        "memory": rows(_MEMORY),
        "memory_findings": rows(_MEMORY_FINDINGS),
        "is_memory_asked": bool(rows("select 1 from memory_owner where source_id = {memory} and is_exact limit 1")),
    }


def times(database: Database, source_ids: Sequence[int]) -> dict[str, float]:
    """What the devices of inputs do in the steady state and why they are idle, all together, in ns: `parts` of the
    answer, whose sum is that of their windows.
    """
    found: dict[str, float] = {}
    asked = ("steady_state", "_judged_gap", "_answer_whole", "_clock_shift") if len(source_ids) > 1 else ()
    with database.computing_once(2 * asked):  # each is read for each input
        for source_id in source_ids:
            for name, time in _times(database, source_id).items():
                found[name] = found.get(name, 0.0) + time
    return found


def _times(database: Database, source_id: int) -> dict[str, float]:
    def rows(statement: str) -> list[Row]:
        return database.dicts(statement.replace("{id}", str(source_id)))

    devices = rows("from steady_state where source_id = {id}")
    (whole,) = rows(_WHOLE)
    shares = _parts(devices, not rows(_CLOCKS) and bool(whole["has_launches"]), rows(_UNRECORDED), rows(_IN_TURN))
    return {name: share * sum(row["window_ns"] for row in devices) for name, share in shares.items()}


def _parts(devices: list[Row], knows_launches: bool, missing: list[Row], in_turn: list[Row]) -> dict[str, float]:
    """Shares of the steady state, the mean of the devices': what they do, exposed, and why they are idle.

    Where clocks do not agree, or calls were not recorded, no launch tells why: idle time is one part. In the time
    `missing` (rows of _UNRECORDED), the mean of the devices', nobody knows whether they are idle: it is a part of its
    own, as is the time in which each is idle while others of its process work (rows of _IN_TURN).
    """
    windows = sum(row["window_ns"] for row in devices)
    if not windows:
        return {}
    found = {name: sum(row[column] or 0 for row in devices) / windows for name, column in _PARTS.items()}
    found["communication"] -= found["rank_wait"]
    missing_ns = sum(row["ns"] for row in missing)
    found["in_turn"] = 0.0
    for row in in_turn:
        share = min(row["ns"] * len(devices) / windows, found[row["cause"]])
        found["in_turn"] += share
        found[row["cause"]] -= share
    if not knows_launches:
        found["idle"] = sum(found.pop(name) for name in IDLE)
    elif missing_ns:
        unknown = missing_ns * len(devices) / windows
        found["unrecorded"] = 0.0
        for name in ("dependency", "host"):  # the latter of what a recording begins with
            share = min(unknown - found["unrecorded"], found[name])
            found["unrecorded"] += share
            found[name] -= share
    return {
        name: share
        for name, share in found.items()
        if share > _NOTHING or name in ("compute", "communication", "copies")
    }


def _phases(rows: list[Row]) -> tuple[dict[str, float], float]:
    """Shares of the steps' time on the CPU: of the phases that are known, and of what the backward computes again."""
    sums = dict(rows[0]) if rows else {}
    wall, recompute = sums.pop("wall_ns", None), sums.pop("recompute", None)
    if not wall:
        return {}, 0.0
    return {name: value / wall for name, value in sums.items() if value}, (recompute or 0) / wall
