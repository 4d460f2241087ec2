"""The sections of a page about steps: what phases launch, how long each step takes, its phases beside their medians."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from ...vocabulary import PHASES
from . import figures, kinds
from .section import Section, Source, section

_STEP_CNT, _STEP_KEPT = 40, 100
_STEP_LEAST = 3  # steps of which a median says something
# What lies in a bar: the kind whose colour the timeline has for it, or else one that no kind has.
_KINDS = {
    "forward": "forward",
    "backward": "backward",
    "optimizer": "optimizer",
    "h2d": "copy",
    "rest": "other",
    "other": "other",
}
_SAID = {
    "h2d": "copies to the GPU",
    "length": "whole step",
    "recompute": "forward again, in the backward",
    "between": "between steps",
}
_TIMES = (
    "step, start_ns - {begin} as start_ns, length_ns, wall_ns, between_ns, data_ns, h2d_ns, forward_ns, "
    "backward_ns, optimizer_ns, launch_cnt, kernel_ns, gpu_busy_ns, token_cnt, is_uneven"
)

Rows = list[dict[str, Any]]


def step_sections(source: Source) -> Iterable[Section | None]:
    """Phases on the CPU and on the GPU, the steps in a row, and steps by phases; of these nothing without steps."""
    yield _work(source)
    rows = source.rows(
        f"select {_TIMES}, adapter from step_summary join _page_step using (source_id, step, start_ns) "
        "where source_id = {id} order by step_summary.start_ns, step"
    )
    if not rows:
        return
    table = [{"step": row["step"], "adapter": row["adapter"], **row} for row in rows]
    again = " What is computed again in the backward is part of it here." if _recomputes(source) else ""
    text = f"Each step, with its phases on the CPU.{again}" if _known(rows) else "Each step; no phase of it is known."
    if any(row["adapter"] for row in rows):
        text += " Adapters are trained in turn: a step of each has the same number."
    yield section(
        "steps", "Steps", text, "step_summary", table, step_bars(rows),
        keys={"step": "step", "start_ns": "begin", "wall_ns": "length"}, follows=("step", "time"),
    )  # fmt: skip
    yield _phases(source)


def _recomputes(source: Source) -> bool:
    return bool(source.rows("from phase_summary where source_id = {id} and phase = 'recompute' and cpu_ns > 0"))


def _work(source: Source) -> Section | None:
    """How long the CPU is in each phase, beside the GPU's work that the phase launches."""
    rows = source.rows("select * exclude (source_id, rank) from phase_summary where source_id = {id}")
    if not any(row["gpu_op_ns"] for row in rows):
        return None
    sides = (("the CPU's steps", "cpu_ns"), ("the GPU's work", "gpu_op_ns"))
    bars = [{"label": label, **{row["phase"]: row[column] or 0 for row in rows}} for label, column in sides]
    drawn = figures.stacked_bars(bars, "label", [(row["phase"], _phase(row["phase"])) for row in rows])
    for trace, row in zip(drawn["data"], rows, strict=True):
        figures.coloured(trace, _KINDS.get(row["phase"]), kinds.of_step(row["phase"]))
    return section(
        "phases", "Phases: CPU and GPU",
        "Of the steps that count: how long the CPU is in each phase, and the GPU's work that each launches, summed, "
        "whenever it runs. A phase that is longer above is launched slower than it runs.",
        "phase_summary", rows, drawn,
    )  # fmt: skip


def names_of(rows: Rows) -> list[str]:
    """What steps are called: by their numbers; those that share one by their adapters, or which of them each is."""
    counts = Counter(row["step"] for row in rows)
    adapters = Counter((row["step"], row.get("adapter")) for row in rows)
    seen: Counter[Any] = Counter()
    found = []
    for row in rows:
        step, adapter = row["step"], row.get("adapter")
        seen[step] += 1
        if counts[step] == 1:
            found.append(f"{step}")
        elif adapter and adapters[step, adapter] == 1:
            found.append(f"{step}, {adapter}")
        else:
            found.append(f"{step}, {seen[step]} of {counts[step]}")
    return found


def step_bars(rows: Rows) -> Any:
    """The steps with their phases; None without phases or with one step."""
    known = _known(rows)
    if not known or len(rows) < 2:
        return None
    named = [
        {"label": f"step {name}",
         **row, "rest_ns": max(0, row["wall_ns"] - sum(row[f"{phase}_ns"] or 0 for phase in known)),
         "gpu_ns": max(0, row["length_ns"] - row["wall_ns"] - (row["between_ns"] or 0))}
        for row, name in zip(rows[:_STEP_KEPT], names_of(rows), strict=False)
    ]  # fmt: skip
    parts = [(f"{phase}_ns", _phase(phase)) for phase in known] + [("rest_ns", "other")]
    if any(row["between_ns"] for row in named):
        parts.append(("between_ns", _phase("between")))
    if any(row["gpu_ns"] for row in named):
        parts.append(("gpu_ns", "GPU, behind the CPU"))
    drawn = figures.stacked_bars(named, "label", parts)
    for trace, (column, _) in zip(drawn["data"], parts, strict=True):
        part = column.removesuffix("_ns")
        figures.coloured(trace, _KINDS.get(part), kinds.of_step(part))
    times = [[row["start_ns"], row["start_ns"] + row["wall_ns"]] for row in named]
    return figures.chosen_from(drawn, _STEP_CNT, len(rows), step=[row["step"] for row in named], time=times)


def _known(steps: Rows) -> list[str]:
    return [phase for phase in PHASES if any(row[f"{phase}_ns"] for row in steps)]


def _phases(source: Source) -> Section | None:
    """Steps by phases, each beside the median of its phase; None for a step or two, or where no phase is known."""
    known = [phase for phase in PHASES if source.rows(
        f"from step_summary where source_id = {{id}} and {phase}_ns > 0 limit 1")]  # fmt: skip
    names = [*known, "length"]
    medians = ", ".join(f"median({name}_ns) over () as {name}_median_ns" for name in names)
    steps = source.rows(
        f"select step, adapter, {', '.join(f'{name}_ns' for name in names)}, {medians} from step_summary "
        "join _page_step using (source_id, step, start_ns) "
        f"where source_id = {{id}} order by start_ns, step limit {_STEP_KEPT}"
    )
    if not known or len(steps) < _STEP_LEAST:
        return None
    return section(
        "step-phases", "Steps and phases",
        "Each cell is a phase of a step: how much longer (orange) or shorter (blue) it was than the median of that "
        "phase. A column that differs is a step in which all was slow, a row a phase that varies.",
        "step_summary", _spread(source, names), _phase_map(steps, names), rows_are="added up by phase",
    )  # fmt: skip


def _spread(source: Source, names: Sequence[str]) -> Rows:
    """Of each phase its median, its shortest and its longest."""
    rows = source.rows(
        "select name as phase, median(value) as median_ns, min(value) as shortest_ns, arg_min(step, value) as "
        "shortest_step, max(value) as longest_ns, arg_max(step, value) as longest_step, sum(value)::bigint as sum_ns "
        f"from (unpivot (from step_summary where source_id = {{id}}) on {', '.join(f'{n}_ns' for n in names)}) "
        "group by name"
    )
    order = {f"{name}_ns": place for place, name in enumerate(names)}
    return [{**row, "phase": _phase(row["phase"])} for row in sorted(rows, key=lambda row: order[row["phase"]])]


def _phase_map(steps: Rows, names: Sequence[str]) -> Any:
    values = [
        [
            None if step[f"{name}_ns"] is None else round(step[f"{name}_ns"] - step[f"{name}_median_ns"])
            for name in names
        ]
        for step in steps
    ]
    return figures.heat_map([_phase(name) for name in names], names_of(steps), values, "step")


def _phase(column: str) -> str:
    name = column.removesuffix("_ns")
    return _SAID.get(name, name)
