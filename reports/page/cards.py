"""The cards at the top of a page: how long a step takes, whether the GPU is busy, how much memory it needs."""

from typing import Any

from ..answer import step_text
from ..tables.units import said_ns, scaled
from .run import Run
from .section import Source

_MIB = 2**20
_LEAST_BYTES = _MIB  # of a peak that is worth a card
_MUCH = 0.7  # of a step: where the GPU works in less of it, that is said


def cards(source: Source, run: Run | None) -> list[dict[str, str]]:
    """What is known, the most asked for first. A run's times are of its timing pass, others are named profiled."""
    return [*_steps(source, run), *_busy(source), *_work(source), *_memory(source, run)]


def _card(what: str, value: str, note: str = "") -> dict[str, str]:
    return {"what": what, "value": value, "note": note}


def _length(ns: float) -> str:
    """A time by which runs are compared, in four digits."""
    unit, (said,) = scaled("ns", [ns])
    return f"{said} {unit}"


def _steps(source: Source, run: Run | None) -> list[dict[str, str]]:
    found = []
    rows = source.rows(
        "select shown.*, every.token_per_s from _answer_step as shown join step_statistics as every using (source_id) "
        "where source_id = {id}"
    )
    # both are said by the mean where one of them is uneven
    says_mean = any(map(step_text.says_mean, rows)) or (run and step_text.is_uneven(run.mean_ns, run.step_ns))
    if run is not None:
        many = f"{run.step_cnt} steps, " if run.step_cnt else ""
        slow = f"p95 {said_ns(run.p95_ns)}, " if run.p95_ns else ""
        what, length = ("mean", run.mean_ns) if says_mean else ("median", run.step_ns)
        found.append(_card(f"step, {what}", _length(length), f"{many}{slow}no profiler attached"))
        if run.token_per_s:
            found.append(_card("tokens", f"{run.token_per_s:,.0f} /s", "no profiler attached"))
    for row in rows:
        steps = f"{step_text.number_of(row)}, {step_text.spread(row)}" if row["step_cnt"] > 1 else "one step"
        if run is None:
            what = "step, mean" if step_text.says_mean(row) else "step, median" if row["step_cnt"] > 1 else "step"
            length = step_text.centre_ns(row)
            found.append(_card(what, _length(length), f"profiled, {steps}{_of_which(source, row, length)}"))
            if row["token_per_s"]:
                found.append(_card("tokens", f"{row['token_per_s']:,.0f} /s", "with the profiler's cost"))
        else:
            profiled = row["mean_ns" if says_mean else "p50_ns"]
            # nothing makes steps faster: where these are, they vary more than a profiler costs
            more = f", {profiled / length - 1:+.0%}" if length and profiled >= length else ""
            found.append(_card("step while profiled", _length(profiled), f"{steps}{more}"))
    return found


def _of_which(source: Source, row: dict[str, Any], length_ns: float) -> str:
    """Of one step the part in which the GPU works, which the verdict is about, where that is a lot less."""
    if row["step_cnt"] > 1:
        return ""
    window = source.rows("select max(window_ns) as ns from steady_state where source_id = {id}")[0]["ns"]
    return f"; GPU work in {said_ns(window)} of it" if window and window < _MUCH * length_ns else ""


def _busy(source: Source) -> list[dict[str, str]]:
    """About the same time as the verdict above: of warm steps where there are some."""
    rows = source.rows(
        "select *, (compute_ns + exposed_communication_ns + exposed_memory_ns) / nullif(window_ns, 0) as busy_frac "
        "from steady_state where source_id = {id} and window_ns > 0 order by device_id"
    )
    found = [
        _card(f"GPU {row['device_id']} busy", f"{row['busy_frac']:.1%}",
              f"of {said_ns(row['window_ns'])}{', warm steps' if row['is_steady'] else ''}")
        for row in rows[:2]
    ]  # fmt: skip
    if len(rows) > 2:
        least = min(row["busy_frac"] for row in rows)
        found[-1]["note"] += f"; {len(rows) - 2} more GPUs, the least busy {least:.1%}"
    return found


def _work(source: Source) -> list[dict[str, str]]:
    """All that was recorded, and named so where the verdict is about less."""
    # calls may begin long before the first GPU work, and GPU work may end behind the last of them
    whole = source.rows(
        "select greatest(recorded_ns, coalesce(whole_ns, 0)) as ns from _steady_time join _answer_whole "
        "using (source_id) where source_id = {id} and is_steady"
    )
    of = f", in all {said_ns(whole[0]['ns'])} that were recorded" if whole else ""
    found = []
    ((kernels, time),) = source.database.rows(
        f"select coalesce(sum(kernel_cnt), 0), coalesce(sum(kernel_ns), 0) from kernel_summary "
        f"where source_id = {source.source_id}"
    )
    if kernels:
        found.append(_card("kernels", f"{kernels:,}", f"{said_ns(time)}{of}"))
    for row in source.rows("select launch_cnt, launch_ns from _page_launch where source_id = {id}"):
        said = f"{said_ns(row['launch_ns'])} of CPU, without waits{of}"
        found.append(_card("launches", f"{row['launch_cnt']:,}", said))
    return found


def _memory(source: Source, run: Run | None) -> list[dict[str, str]]:
    rows = [] if source.memory is None else source.rows(
        "select device, max(peak_bytes) as peak_bytes, not any_value(kind_has_work(source.kind)) as is_asked, "
        "any_value(kind_is_of_torch(source.kind)) as is_of_torch, "
        "bool_or((source_id, device) in (select (source_id, device) from _memory_from_zero)) as is_from_zero "
        f"from memory_peak join source using (source_id) where source_id = {source.memory[0]} "
        f"group by device having max(peak_bytes) >= {_LEAST_BYTES} order by device = 'cpu', device limit 2"
    )  # fmt: skip
    found = [
        _card(f"peak memory of {row['device']}", f"{row['peak_bytes'] / _MIB:,.1f} MiB", _who(row) + source.memory_in())
        for row in rows
    ]
    if not found and run is not None and run.peak_bytes:
        found.append(_card("peak memory", f"{run.peak_bytes / _MIB:,.1f} MiB", "allocated by torch, timing pass"))
    return found


def _who(row: dict[str, Any]) -> str:
    """What a peak is made of: what holds memory alone has sizes that were asked for, which the allocator rounds up."""
    if row["is_asked"]:
        what = "asked for by torch"
    else:
        what = "allocated by torch" if row["is_of_torch"] else "taken from the device"
    return f"{what} since the recording began, besides what was there" if row["is_from_zero"] else what
