"""What a page shows of several ranks: who is late in which step and why, and how fast collectives are."""

import statistics
from collections.abc import Iterable
from typing import Any

from ..answer import cause
from ..units import said_ns
from . import figures
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
            f"{_verdict(slowest)} {_READING}{_shown_of(rows)}",
            "straggler",
            shown,
            _heat_map(rows),
            is_open=True,
            keys={"rank": "rank", "step": "step"},
        )
    yield _collectives(source)


_READING = (
    "Each cell is a step of a rank: how much more (red) or less (blue) time it took for itself than the median of the "
    "ranks, waiting for communication left out."
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
        text += f" All ranks of {row['late_host']} are late, by {said_ns(row['host_lag_ns'])} in a step (median)."
    return text


def _heat_map(rows: Rows) -> Any:
    """The ranks and the steps with the largest deviations; None for a single cell."""
    ranks, steps = _largest(rows, "rank", _RANK_CNT), _largest(rows, "step", _STEP_CNT)
    found = {(row["rank"], row["step"]): row["lag_ns"] for row in rows}
    return figures.heat_map(
        [f"rank {rank}" for rank in ranks],
        ["all" if step is None else f"{step}" for step in steps],
        [[found.get((rank, step)) for rank in ranks] for step in steps],
        "step",
        _LEAST_FRAC * statistics.median(row["wall_ns"] for row in rows),
    )


def _largest(rows: Rows, name: str, count: int) -> list[Any]:
    """The ranks or steps in order, of many so many: those in which something deviates most."""
    most: dict[Any, int] = {}
    for row in [row for row in rows if row[name] is not None] or rows:  # inputs without steps count as one
        most[row[name]] = max(most.get(row[name], 0), abs(row["lag_ns"]))
    return sorted(sorted(most, key=lambda one: -most[one])[:count])


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
    size = row["least_bytes"]
    unit, scale = next(
        (u, s) for u, s in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10), ("B", 1)) if (size or 0) >= s or s == 1
    )
    parts = (row["operation"], row["group_description"] or row["group_name"], f"from {(size or 0) // scale} {unit}")
    return " ".join(str(part) for part in parts if part) + f", {row['member_cnt']} ranks"
