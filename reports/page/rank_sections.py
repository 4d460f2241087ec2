"""What a page shows of several ranks: who is late in which step and why, and how fast collectives are."""

import statistics
from collections.abc import Iterable
from typing import Any

from ..answer import step_text
from ..answer.answer import cause
from ..answer.rank_picture import most_striking
from ..tables import sources
from ..tables.units import said_bytes, said_ns
from . import figures, kinds
from .receipt import PARTS
from .section import Section, Source, section

_RANK_CNT, _STEP_CNT, _BAR_CNT = 64, 60, 20
_LEAST_FRAC = 0.01  # of a step: where nothing deviates by more the colours are pale
_GB_S = 1e-9

Rows = list[dict[str, Any]]


def rank_sections(source: Source) -> Iterable[Section | None]:
    """Ranks x steps, and collectives by bus bandwidth; nothing for a single rank."""
    rows = source.rows(
        "select straggler.* from straggler join source using (source_id) "
        "where source.kind = (select kind from source where source_id = {id}) order by step, rank, source_id"
    )
    if rows:
        late = [_told(row) for row in rows if row["is_straggler"]]
        columns = ("step", "rank", "lag_ns", "kept_waiting_ns") if not late else ()
        shown = late or [{name: row[name] for name in columns} for row in rows]
        slowest = source.rows("from _slowest_rank where kind = (select kind from source where source_id = {id})")
        yield section(
            "late",
            "Ranks and steps",
            f"{_verdict(slowest)} {_READING}{_apart(slowest, rows)}{_shown_of(rows)}",
            "straggler",
            shown,
            _heat_map(rows),
            is_open=True,
            keys={"rank": "rank", "step": "step"},
            rows_are="of those that are late" if len(shown) < len(rows) else "",
        )
    yield _collectives(source)


def ranks_side_by_side(source: Source) -> Iterable[Section | None]:
    """The ranks, or else the inputs, side by side. Recordings of one run are of the same steps, and no two of them."""
    counted = sources.counting(source.database)
    rows = source.rows(
        "select source_id, rank, name, step_ns, busy_ns, exposed_communication_ns, idle_ns, straggler_cnt "
        f"from rank_summary where source_id in (select source_id from source where {counted} and kind_has_work(kind))"
    )
    if len(rows) < 2:
        return
    steps = {row["source_id"]: row for row in source.rows("from _answer_step")}
    for row in rows:
        own = steps.get(row["source_id"])
        row["step_ns"] = step_text.centre_ns(own) if own else None
    is_by_rank = len({row["rank"] for row in rows}) > 1
    what = "ranks" if is_by_rank else "inputs"
    text = (
        f"The {what} side by side. A step is the median without cold ones, of very uneven ones the mean; adapters that "
        "take turns share it, so it has all of their turns. Busy and idle are from the first GPU work to the last."
    )
    shown = [{name: row[name] for name in row if name != "source_id"} for row in rows]
    yield section("ranks", what.capitalize(), text, "rank_summary", shown, _rank_bars(shown), keys={"rank": "rank"},
                  follows=("rank",) if is_by_rank else ())  # fmt: skip


def _rank_bars(rows: Rows) -> Any:
    """Of each rank what its GPU does."""
    named = [
        {"label": f"rank {row['rank']}" if row["rank"] is not None else row["name"],
         "work_ns": (row["busy_ns"] or 0) - (row["exposed_communication_ns"] or 0), **row}
        for row in rows
        if row["busy_ns"]
    ]  # fmt: skip
    series = [
        ("work_ns", "computes or copies"),
        ("exposed_communication_ns", "communication alone"),
        ("idle_ns", "idle"),
    ]
    if not named:
        return None
    drawn = figures.stacked_bars(named, "label", series)
    for trace, kind in zip(drawn["data"], (PARTS["compute"][1], PARTS["communication"][1], kinds.IDLE), strict=True):
        figures.coloured(trace, kind)
    return figures.chosen_from(drawn, len(named), rank=[row["rank"] for row in named])


_READING = (
    "Each cell is a step of a rank: how much more (orange) or less (blue) time it took for itself than the median "
    "of the ranks, waiting for communication left out."
)


def _told(row: dict[str, Any]) -> dict[str, Any]:
    names = ("step", "rank", "kept_waiting_ns", "late_ns", "lag_ns", "cause", "cause_ns", "cause_place", "found_by")
    return {name: row[name] for name in names}


def _verdict(slowest: Rows) -> str:
    """Who kept the others waiting longest, and what it spent more on."""
    if not slowest:
        return "No rank keeps the others waiting."
    (row,) = slowest
    waited = said_ns(row["kept_waiting_ns"])
    steps = f"{row['straggler_cnt']} step{'' if row['straggler_cnt'] == 1 else 's'}"
    text = f"Rank {row['rank']} holds the others up most: late in {steps}, they waited {waited} for it."
    if why := cause(row):
        text += f" Cause: {why}."
    if row["late_host"]:
        text += f" All ranks of {row['late_host']} are late, by {said_ns(row['host_late_ns'])} in a step (median)."
    return text


def _apart(slowest: Rows, rows: Rows) -> str:
    """Why the deepest orange is another rank than the one that is named, where it is."""
    own = [row for row in rows if slowest and row["rank"] == slowest[0]["rank"]]
    deepest = max(rows, key=lambda row: row["lag_ns"])
    if not any(row["is_straggler"] and row["found_by"] == "arrival" for row in own):
        return ""
    if deepest["lag_ns"] <= max(row["lag_ns"] for row in own):
        return ""
    waited = sum(row["kept_waiting_ns"] or 0 for row in rows if row["rank"] == deepest["rank"])
    return (
        f" The deepest orange is rank {deepest['rank']} all the same: it took longer for itself, but others waited "
        f"only {said_ns(waited)} for it. Who holds others up is told by who comes last to collectives, not by colors."
    )


def _heat_map(rows: Rows) -> Any:
    """The ranks and the steps with the largest deviations; None for a single cell."""
    known = [row for row in rows if row["step"] is not None] or rows  # inputs without steps count as one
    ranks = most_striking(((row["rank"], abs(row["lag_ns"])) for row in known), _RANK_CNT)
    steps = most_striking(((row["step"], abs(row["lag_ns"])) for row in known), _STEP_CNT)
    found = {(row["rank"], row["step"]): row["lag_ns"] for row in rows}
    return figures.heat_map(
        [f"rank {rank}" for rank in ranks],
        ["all" if step is None else f"{step}" for step in steps],
        [[found.get((rank, step)) for rank in ranks] for step in steps],
        "step",
        _LEAST_FRAC * statistics.median(row["wall_ns"] for row in rows),
    )


def _shown_of(rows: Rows) -> str:
    """What of many ranks and steps the picture has."""
    counts = {
        name: (len({row[name] for row in rows}), most) for name, most in (("rank", _RANK_CNT), ("step", _STEP_CNT))
    }
    left = [f"{most} of {count:,} {name}s" for name, (count, most) in counts.items() if count > most]
    return f" The picture has {' and '.join(left)}: those that deviate most." if left else ""


def _collectives(source: Source) -> Section | None:
    rows = source.rows(
        "select operation, group_description, member_cnt, dtype, least_bytes, collective_cnt, unmatched_cnt, reason, "
        "work_ns, wait_ns, median_transfer_ns, algbw_bytes_s, busbw_bytes_s, group_name from collective_summary "
        "where (select count(distinct rank) from source) > 1 order by busbw_bytes_s desc nulls last, work_ns desc"
    )
    if not rows:
        return None
    known = [row for row in rows if row["busbw_bytes_s"]]
    named = [{**row, "label": _label(row)} for row in known[:_BAR_CNT]]
    bars = figures.side_by_side(
        [{**row, "bus bandwidth": row["busbw_bytes_s"]} for row in named], "label", ["bus bandwidth"], "GB/s", _GB_S
    )
    text = (
        "By bus bandwidth, as nccl-tests define it: what the links carry, from the last arrival to the first end. "
        "Rows of ranks that belong to no collective of all of their group say why."
    )
    return section("collectives", "Collectives", text, "collective_summary", rows, bars if named else None)


def _label(row: dict[str, Any]) -> str:
    parts = (
        row["operation"],
        row["group_description"] or row["group_name"],
        f"from {said_bytes(row['least_bytes'] or 0)}",
    )
    return " ".join(str(part) for part in parts if part) + f", {row['member_cnt']} ranks"
