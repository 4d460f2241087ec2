"""The sections of a page about memory: what it is for over time, its peak, phases, fragments, and running out of it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ...sql import literal
from . import blocks, figures, kinds
from .section import Section, Source, only, section, tabled

MEMORY_FINDINGS = "memory-findings"  # the section of what rules found
_TABLED_CNT = 100  # blocks in the table of them
_BEFORE = "load"  # the phase of what was there before the recording


@dataclass(frozen=True)
class _Clock:
    """Where pictures of memory have their 0: where the timeline has it, or at the first event of another recording."""

    is_timed: bool
    is_on_timeline: bool
    first_ns: int  # the first event of memory
    zero_ns: int
    name: str = ""  # of the other recording

    @classmethod
    def of(cls, source: Source, source_id: int) -> "_Clock":
        """The clock of an input's memory on the page of a source."""
        ((is_timed, first, name),) = source.database.rows(
            "select is_timed, (select min(time_ns) from _memory_level where source_id = source.source_id), name "
            f"from source where source_id = {source_id}"
        )
        is_on_timeline = bool(source_id == source.source_id and is_timed and source.has_timeline)
        return cls(bool(is_timed), is_on_timeline, first, source.begin if is_on_timeline else first,
                   "" if source_id == source.source_id else name)  # fmt: skip

    def moved(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Rows with a time_ns since the first event, which is from the 0 on then."""
        return (
            [row | {"time_ns": row["time_ns"] + self.first_ns - self.zero_ns} for row in rows]
            if self.is_timed
            else rows
        )

    @property
    def told(self) -> str:
        if self.name:
            clock = ", with a clock of its own: times are not those of the timeline" if self.is_timed else ""
            return f" Recorded in {self.name}{clock}."
        return " Times are those of the timeline." if self.is_on_timeline else ""


def memory_sections(source: Source) -> Iterable[Section | None]:
    """Of the input that knows most of what memory is for: that of a run's memory pass, or a snapshot; devices first."""
    if source.memory is not None:
        source_id, device = source.memory
        which = f"source_id = {source_id} and device = {literal(device)}"
        clock = _Clock.of(source, source_id)
        rows = clock.moved(source.rows(f"select * exclude (source_id, device) from _page_memory where {which}"))
        yield _over_time(source, which, device, rows, clock)
        yield _blocks(source, source_id, device, list(dict.fromkeys(row["category"] for row in rows)), clock)
        yield tabled(
            source, MEMORY_FINDINGS, "What to do about memory", "What rules found, the largest first.",
            "memory_finding",
            "select severity, replace(rule, '_', ' ') as rule, device, cost_bytes, cost_frac, evidence, advice "
            f"from memory_finding where {which}",
            is_open=True, rows_are=f"of {device}",
        )  # fmt: skip
        yield _phases(source, which, device)
    yield tabled(
        source, "memory-fragments", "Memory held and not used", "What torch's allocator held of each device, when most "
        f"was held and when the snapshot was taken.{_unused(source)}", "memory_fragmentation",
        "select device, moment, pool, reserved_bytes, allocated_bytes, requested_bytes, unused_bytes, unused_frac, "
        "largest_free_bytes, free_block_cnt, segment_cnt from memory_fragmentation "
        f"where source_id in {source.of_rank}",
    )  # fmt: skip
    yield tabled(
        source, "out-of-memory", "Out of memory", "Allocations that failed, and what was live then.", "out_of_memory",
        "select device, time_ns, event_number, requested_bytes, live_bytes, unused_bytes, free_bytes, "
        f"largest_category, largest_bytes, stack from out_of_memory where source_id in {source.of_rank}",
        is_open=True,
    )  # fmt: skip


def _over_time(source: Source, which: str, device: str, rows: list[dict[str, Any]], clock: _Clock) -> Section:
    """Categories over time, the most lasting below, and what was live at the peak."""
    peak = source.rows(
        "select category, path, adapter, stack, live_bytes, live_frac, allocation_cnt, largest_bytes, basis "
        f"from memory_peak where {which} order by live_bytes desc"
    )
    peak = [row | {"stack": blocks.placed(row["stack"])} for row in peak]
    shown = [name for name in peak[0] if name in ("category", "basis") or any(row[name] is not None for row in peak)]
    text = (
        f"What the memory of {device} is for{_over(rows)}; the table says what was live when it was highest, by the "
        "range that allocated it. A category is exact where lorabench collect watched the run, else guessed from "
        f"lifetimes.{clock.told}"
    )
    held = clock.moved(source.rows(
        "from (select time_ns, event_number, max(reserved_bytes) as reserved_bytes from memory_timeline "
        f"where {which} and reserved_bytes is not null group by time_ns, event_number) "
        "qualify reserved_bytes is distinct from lag(reserved_bytes) over (order by time_ns, event_number) "
        "order by time_ns, event_number limit 2000"
    ))  # fmt: skip
    if held:  # until the end, where nothing changes any more
        held = [*held, {**held[-1], "time_ns": rows[-1]["time_ns"], "event_number": rows[-1]["event_number"]}]
    figure = figures.stacked_areas(rows, "category", "live_bytes", kinds.of_memory, held)
    return section("memory", "Memory", text, "memory_peak", only(peak, *shown), figure, keys={"path": "range"},
                   follows=("time",) if clock.is_on_timeline else (), rows_are=f"of {device}")  # fmt: skip


def _phases(source: Source, which: str, device: str) -> Section | None:
    """What was live in each phase, and in which the peak lies; None where no phase held anything."""
    rows = source.rows(
        f"select phase, phase_cnt, begin_bytes, peak_bytes, end_bytes, reserved_bytes from memory_phase where {which}"
    )
    known = [row for row in rows if row["phase"] != _BEFORE and row["peak_bytes"]]
    if not known:
        return None
    ((peak,),) = source.database.rows(f"select coalesce(max(peak_bytes), 0) from memory_peak where {which}")
    most = max(row["peak_bytes"] for row in known)
    where = ", ".join(row["phase"] for row in known if row["peak_bytes"] == most)
    text = "The most that was live in each phase of training. "
    if most >= peak:
        text += f"The peak of {_mib(peak)} is in {where}."
    else:
        text += (
            f"The peak of {_mib(peak)} lies in none of them: it is outside of the ranges that say a phase. At most "
            f"{_mib(most)} was live in one ({where})."
        )
    return section("memory-phases", "Memory of phases", text, "memory_phase", rows, rows_are=f"of {device}")


def _unused(source: Source) -> str:
    """What is taken off what is held where a snapshot does not know how much blocks took."""
    rows = source.rows(
        "select 1 from memory_fragmentation where allocated_bytes is null and requested_bytes is not null "
        f"and source_id in {source.of_rank} limit 1"
    )
    if not rows:
        return ""
    return (
        " Unused is what is held without what is allocated; where that is empty, without what was requested, so a "
        "little too much: the allocator rounds sizes up."
    )


def _mib(size: int) -> str:
    return f"{size / 2**20:,.1f} MiB"


def _over(rows: list[dict[str, Any]]) -> str:
    """What the picture's axis is."""
    return ", over time" if rows and rows[0]["time_ns"] is not None else ", event by event (it has no times)"


def _blocks(source: Source, source_id: int, device: str, categories: list[str], clock: _Clock) -> Section | None:
    """The largest blocks stacked on each other, of the process that held most; None with fewer than two."""
    where = f"source_id = {source_id} and device = {literal(device)}"
    ((process,),) = source.database.rows(
        "select coalesce(arg_max(process_id, live_bytes)::varchar, 'null') from _memory_level "
        f"where {where} and process_id is not null"
    )
    where += f" and process_id is not distinct from {process}"
    rows = source.rows(f"select * from _page_block where {where} order by place")
    if len(rows) < 2:
        return None
    axis, drawn = _stack(source, where, rows, categories, clock.is_timed)
    drawn |= {"zero": axis.place(clock.zero_ns), "device": device}
    tabled_rows = [
        _tabled(row, axis, clock.zero_ns) for row in sorted(rows, key=lambda row: -row["bytes"])[:_TABLED_CNT]
    ]
    text = _text(drawn, source.has_timeline and any(row["path"] for row in rows)) + clock.told
    return section(
        "blocks", "Memory blocks", text, "memory_timeline", tabled_rows, drawn, kind="blocks",
        keys={"path": "range"}, follows=("time", "range") if clock.is_on_timeline else ("range",),
        row_cnt=drawn["cnt"] + drawn["smaller_cnt"], rows_are="blocks, the largest first",
    )  # fmt: skip


def _stack(
    source: Source, where: str, rows: list[dict[str, Any]], categories: list[str], is_timed: bool
) -> tuple[blocks.Axis, dict[str, Any]]:
    """The axis and the picture of a device's blocks, and of what is live and held beside them."""
    level = source.columns(
        "select time_ns, live_bytes, coalesce(reserved_bytes, -1) as reserved_bytes, live_bytes - bytes as begin_bytes "
        f"from _memory_level where {where} order by time_ns, bytes"
    )
    ((cnt, before_bytes),) = source.database.rows(
        f"select count(*), coalesce(sum(bytes) filter (start_ns is null), 0)::bigint from _memory_block where {where}"
    )
    bands = source.rows(
        f"select phase, start_ns, end_ns from _memory_phase_stretch where {where} order by start_ns "
        f"limit {blocks.BAND_CNT + 1}"
    )
    names = list(dict.fromkeys([*categories, *(row["category"] for row in rows)]))
    colours = [(name, kinds.of_memory(name)[0]) for name in names]
    axis = blocks.Axis(int(level["time_ns"][0]), int(level["time_ns"][-1]), is_timed)
    drawn = blocks.picture(
        rows, max(0, int(level["begin_bytes"][0]) - before_bytes), axis, blocks.Level.of(axis, level), colours,
        bands if len(bands) <= blocks.BAND_CNT else [],
    )  # fmt: skip
    return axis, drawn | {"smaller_cnt": cnt - len(rows), "has_bands": len(bands) <= blocks.BAND_CNT}


def _text(drawn: dict[str, Any], is_pickable: bool) -> str:
    """What the picture of blocks is, and how exact."""
    smaller = drawn["smaller_cnt"]
    which = f"The largest {drawn['cnt']:,} of {drawn['cnt'] + smaller:,}" if smaller else f"{drawn['cnt']:,}"
    text = (
        f"{which} blocks of {drawn['device']}, each from its allocation to its free, on those that were there before "
        f"it. {'Smaller ones are the gray band on top: the' if smaller else 'The'} upper edge is all that was live; a "
        "column of pixels shows the moment in it at which most was. Drag to zoom, double-click to see all"
        f"{'; a click chooses the range that allocated a block' if is_pickable else ''}."
    )
    if drawn["tops"]:
        text += " Of so many the gray band is the most of each of 2,000 stretches of time."
    if not drawn["has_bands"]:
        text += f" Phases change more than {blocks.BAND_CNT:,} times and are left out."
    if drawn["base"]:
        text += f" Of {drawn['base'] / 2**20:,.2f} MiB from before the recording no block is known."
    if drawn["lack_bytes"]:
        text += f" Blocks add up to as much as {drawn['lack_bytes'] / 2**20:,.2f} MiB more than the recorder counted."
    return text


def _tabled(row: dict[str, Any], axis: blocks.Axis, zero: int) -> dict[str, Any]:
    """A block as the table has it."""
    unit = "ns" if axis.is_timed else "event"
    times = {f"{name}_{unit}": None if row[f"{name}_ns"] is None else axis.place(row[f"{name}_ns"]) - axis.place(zero)
             for name in ("start", "free")}  # fmt: skip
    what = {"size_bytes": row["bytes"], "category": row["category"].replace("_", " ")}
    row = row | {"stack": blocks.placed(row["stack"])}
    return what | only([row], "name", "adapter", "path", "stack")[0] | times
