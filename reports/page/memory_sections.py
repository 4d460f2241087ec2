"""The sections of a page about memory: what it is for over time, its peak, phases, fragments, and running out of it."""

from collections.abc import Iterable
from typing import Any

from ...sql import literal
from . import figures
from .section import Section, Source, only, section, tabled

MEMORY_FINDINGS = "memory-findings"  # the section of what rules found


def memory_sections(source: Source) -> Iterable[Section | None]:
    """Of the input that knows most of what memory is for: that of a run's memory pass, or a snapshot; devices first."""
    found = source.database.rows(
        """select source_id, device
        from (select distinct source_id, device from memory_event)
        order by source_id not in (select source_id from memory_owner), device = 'cpu', source_id, device
        limit 1"""
    )
    if found:
        source_id, device = found[0]
        which = f"source_id = {int(source_id)} and device = {literal(str(device))}"
        yield _over_time(source, which, str(device))
        yield tabled(
            source, MEMORY_FINDINGS, "What to do about memory", "What rules found, the largest first.",
            "memory_finding",
            "select severity, replace(rule, '_', ' ') as rule, device, cost_bytes, cost_frac, evidence, advice "
            f"from memory_finding where {which}",
            is_open=True,
        )  # fmt: skip
        yield tabled(
            source, "memory-phases", "Memory of phases", "The most that was live in each phase of training.",
            "memory_phase",
            "select phase, phase_cnt, begin_bytes, peak_bytes, end_bytes, reserved_bytes from memory_phase "
            f"where {which}",
        )  # fmt: skip
    yield tabled(
        source, "memory-fragments", "Memory held and not used", "What torch's allocator held of each device, "
        "when most was held and when the snapshot was taken.", "memory_fragmentation",
        "select device, moment, pool, reserved_bytes, allocated_bytes, requested_bytes, unused_bytes, unused_frac, "
        "largest_free_bytes, free_block_cnt, segment_cnt from memory_fragmentation",
    )  # fmt: skip
    yield tabled(
        source, "out-of-memory", "Out of memory", "Allocations that failed, and what was live then.", "out_of_memory",
        "select device, time_ns, event_number, requested_bytes, live_bytes, unused_bytes, free_bytes, "
        "largest_category, largest_bytes, stack from out_of_memory",
        is_open=True,
    )  # fmt: skip


def _over_time(source: Source, which: str, device: str) -> Section:
    """Categories over time, the most lasting below, and what was live at the peak."""
    rows = source.rows(f"select * exclude (source_id, device) from _page_memory where {which}")
    peak = source.rows(
        "select category, path, adapter, stack, live_bytes, live_frac, allocation_cnt, largest_bytes, basis "
        f"from memory_peak where {which} order by live_bytes desc"
    )
    shown = [name for name in peak[0] if name in ("category", "basis") or any(row[name] is not None for row in peak)]
    text = (
        f"What the memory of {device} is for{_over(rows)}; the table says what was live when it was highest, by the "
        "range that allocated it. A category is exact where lorabench collect watched the run, else guessed from "
        "lifetimes."
    )
    held = source.rows(
        "from (select time_ns, event_number, max(reserved_bytes) as reserved_bytes from memory_timeline "
        f"where {which} and reserved_bytes is not null group by time_ns, event_number) "
        "qualify reserved_bytes is distinct from lag(reserved_bytes) over (order by time_ns, event_number) "
        "order by time_ns, event_number limit 2000"
    )
    if held:  # until the end, where nothing changes any more
        held = [*held, {**held[-1], "time_ns": rows[-1]["time_ns"], "event_number": rows[-1]["event_number"]}]
    figure = figures.stacked_areas(rows, "category", "live_bytes", held)
    return section("memory", "Memory", text, "memory_peak", only(peak, *shown), figure, keys={"path": "range"})


def _over(rows: list[dict[str, Any]]) -> str:
    """What the picture's axis is."""
    return ", over time" if rows and rows[0]["time_ns"] is not None else ", event by event (it has no times)"
