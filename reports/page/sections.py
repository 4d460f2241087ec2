"""What a page shows of one input: each section asks one view and names its picture."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from ..answer.answer import MEAN_WINDOW
from ..tables.units import said_ns
from . import figures, kinds
from .cells import shapes
from .counter_sections import counter_sections
from .memory_sections import memory_sections
from .rank_sections import rank_sections, ranks_side_by_side
from .receipt import PARTS
from .section import Section, Source, lines_of, only, section
from .step_sections import step_sections
from .work_sections import flame_section, timeline_section

_BAR_CNT, _GROUP_CNT, _POINT_CNT = 15, 60, 300
_MUCH_LONGER = 1.05  # than the verdict's window, so that a critical path needs a word about it

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class _Asked:
    """A section of the rows of one view: which, and the picture of them."""

    name: str
    title: str
    text: str | Callable[[Rows], str]
    view: str
    columns: str
    picture: Callable[[Rows], Any] = lambda rows: None
    rest: str = ""  # of the statement: grouping, order
    where: str = "source_id = {id}"
    keys: dict[str, str] = field(default_factory=dict)  # of columns: what their cells choose
    follows: tuple[str, ...] = ()  # what filters the picture
    added_up: str = ""
    rows_are: str = ""  # other than those of the view
    is_of_all: bool = False  # though the verdict may be of the warm steps alone

    def make(self, source: Source) -> Section | None:
        """The section, None without rows."""
        rows = source.rows(f"select {self.columns} from {self.view} where {self.where} {self.rest}")
        if not rows:
            return None
        text = self.text if isinstance(self.text, str) else self.text(rows)
        if self.is_of_all:
            text += source.apart()
        rows_are = self.rows_are and source.where_other(self.view, rows, self.rows_are)
        return section(self.name, self.title, text, self.view, rows, self.picture(rows), keys=self.keys,
                       follows=self.follows, added_up=self.added_up, rows_are=rows_are)  # fmt: skip


def sections(source: Source) -> list[Section]:
    """The sections of an input, without those that its trace has nothing for."""
    made: Iterable[Section | None] = [
        section
        for entry in _SECTIONS
        for section in ([entry.make(source)] if isinstance(entry, _Asked) else entry(source))
    ]
    return [section for section in made if section is not None]


def _queue(source: Source) -> Iterable[Section | None]:
    """The streams with the longest queues, a line each."""
    rows = source.rows("select * exclude source_id from _page_queue where source_id = {id}")
    if not rows:
        return
    text = (
        "Work that was launched and had not begun, on average in each time bin. Near zero, the GPU waits for the CPU."
    )
    lines = figures.lines(*lines_of(rows, "stream", "mean_queue_cnt"), "launched, not begun")
    (every,) = source.rows(
        "select count(distinct (device_id, stream_id)) as cnt from queue_length where source_id = {id}"
    )
    shown = len({row["stream"] for row in rows})
    few = f"of the {shown} of {every['cnt']} streams with the longest queues" if shown < every["cnt"] else ""
    yield section("queue", "Queue length over time", text, "queue_length", rows, lines, keys={"start_ns": "begin"},
                  follows=("time",), rows_are=few)  # fmt: skip


def _bars(label: str, column: str, title: str) -> Callable[[Rows], Any]:
    return lambda rows: figures.stacked_bars(rows[:_BAR_CNT], label, [(column, title)])


def _kernel_bars(rows: Rows) -> Any:
    drawn = figures.stacked_bars(rows[:_BAR_CNT], "short_name", [("kernel_ns", "kernel time")])
    return figures.chosen_from(drawn, _BAR_CNT, kernel=[row["short_name"] for row in rows[:_BAR_CNT]])


def _class_bars(rows: Rows) -> Any:
    """A bar of each class, in the colour that the timeline has for it."""
    drawn = figures.stacked_bars(rows, "class", [("gpu_op_ns", "GPU time")])
    drawn["data"][0]["meta"] = {"kinds": [kinds.of_class(row["class"]) for row in rows]}
    return drawn


_LAUNCHING = {
    "whole": ("wall_ns", "the range was open"),
    "rest": ("launch_overhead_ns", "of that its work did not run"),
    "beside": ("gpu_busy_ns", "its work ran"),
    "tick": ("launch_ns", "CPU in launching calls"),
}


def _launch_bullets(rows: Rows) -> Any:
    kept = rows[:_GROUP_CNT]
    drawn = figures.bullets(kept, "path", _LAUNCHING)
    return figures.chosen_from(drawn, _BAR_CNT, len(rows), range=[row["path"] for row in kept])


def _operator_bars(rows: Rows) -> Any:
    column, title = ("self_gpu_ns", "own GPU time") if rows[0]["self_gpu_ns"] else ("self_cpu_ns", "own CPU time")
    named = [{"label": f"{row['operator']} {shapes(row['input_shapes'])}".strip(), **row} for row in rows[:_BAR_CNT]]
    return _bars("label", column, title)(named)


def _critical_bars(rows: Rows) -> Any:
    named = [{"label": f"{r['activity']}: {r['name'] or r['path'] or '(no range)'}", **r} for r in rows[:_GROUP_CNT]]
    drawn = figures.stacked_bars(named, "label", [("critical_ns", "on the critical path")])
    return figures.chosen_from(
        drawn, _BAR_CNT, len(rows), range=[row["path"] for row in named], kernel=[row["name"] for row in named]
    )


def _critical(source: Source) -> Iterable[Section | None]:
    """What the recording hung on; how long all of it is, where that is more than the verdict is about."""
    rows = source.rows(
        "select activity, path, name, critical_ns from _page_critical where source_id = {id} order by critical_ns desc"
    )
    if not rows:
        return
    text = "What determines how long it takes. The CPU's time goes by ranges that the program opened, not by operators."
    steps = source.rows("select count(*) as cnt, count(*) filter (is_cold) as cold_cnt from _warm_step where "
                        "source_id = {id}")[0]  # fmt: skip
    windows = source.rows(MEAN_WINDOW)
    whole, window = sum(row["critical_ns"] for row in rows), windows[0]["window_ns"] if windows else None
    if source.is_of_warm_steps:
        text += f" It is of all steps, {said_ns(whole)}"
        text += "; the verdict is of the warm ones alone." if steps["cold_cnt"] else ", which the verdict is about."
    elif window and whole > _MUCH_LONGER * window:
        of = "all steps" if steps["cnt"] else "all that was recorded"
        text += (
            f" It is of {of}, {said_ns(whole)}, with what the CPU does before and after the {said_ns(window)} of the "
            "GPU that the verdict is about."
        )
    yield section("critical", "Critical path", text, "critical_path", rows, _critical_bars(rows),
                  keys={"path": "range", "name": "kernel"}, follows=("range", "kernel"),
                  rows_are="added up over steps" if steps["cnt"] > 1 else "")  # fmt: skip


def _idle(source: Source) -> Iterable[Section | None]:
    """Why devices were idle, in the parts of the receipt: what nobody knows is none of the causes."""
    rows = source.rows("select * exclude source_id from _page_idle where source_id = {id}") or source.rows(
        "select *, cause as part from idle_summary where source_id = {id}"  # of a job whose parts are gone
    )
    if not rows:
        return
    rows = [{"device_id": row["device_id"], "why": PARTS[row["part"]][0], **row} for row in rows]
    parts = {row["part"] for row in rows}
    text = (
        "It waits for the CPU (host), for other work (dependency: another stream, an event or a copy), or it is "
        "between kernels (kernel_wait). The time before the first work of all is not among these."
    )
    if "unrecorded" in parts:
        text += " Whether the GPU was idle in what is not recorded is not known: finding says why it is missing."
    if "in_turn" in parts:
        text += " While it waits for another GPU of its process, that one works."
    if "idle" in parts:
        text = (
            "The clocks of CPU and GPU do not match, so no launch tells why; the causes in the table would be right if "
            "they did."
        )
    yield section("idle", "Why the GPU was idle", text + source.apart(), "idle_summary", only(
        rows, "device_id", "why", "cause", "gap_cnt", "idle_ns", "behind_wait_ns", "idle_frac", "max_ns",
    ), _idle_bars(rows), rows_are="a cause in several rows where more than that is known"
                  if parts & {"unrecorded", "in_turn"} else "")  # fmt: skip


def _idle_bars(rows: Rows) -> Any:
    """A bar of each device and part of the receipt."""
    many = len({row["device_id"] for row in rows}) > 1
    sums: dict[str, int] = {}
    for row in rows:
        label = f"GPU {row['device_id']}: {row['why']}" if many else row["why"]
        sums[label] = sums.get(label, 0) + row["idle_ns"]
    named = [{"label": label, "idle_ns": time} for label, time in sums.items()]
    drawn = figures.stacked_bars(named[:_GROUP_CNT], "label", [("idle_ns", "time")])
    figures.coloured(drawn["data"][0], kinds.IDLE)
    return drawn


_ROOFS = (("matrix16_flops", "matrix products in 16 bits"), ("matrix32_flops", "32 bits, without TF32"))


def _roofline(source: Source) -> Iterable[Section | None]:
    """Operators by what they compute for each byte; nothing where the device or the operators' shapes are not known."""
    peaks = source.rows("from _device_peak where source_id = {id}")
    rows = source.rows(
        "select operator, input_shapes, call_cnt, self_gpu_ns, flop / bytes as intensity, flop_s, bound, roofline_frac "
        "from operator_summary where source_id = {id} and flop > 0 and bytes > 0 and self_gpu_ns > 0 "
        f"and bound is not null order by self_gpu_ns desc limit {_POINT_CNT}"
    )
    if not peaks or not rows:
        return
    (peak,) = peaks
    points = [
        {**row, "told": f"{row['operator']} {shapes(row['input_shapes'])}, {row['self_gpu_ns'] / 1e6:,.3f} ms in "
         f"{row['call_cnt']} calls, {row['roofline_frac'] * 100:.0f} % of its limit"}
        for row in rows
    ]  # fmt: skip
    roofs = [{"flop_s": peak[column], "name": name} for column, name in _ROOFS if peak[column]]
    yield section(
        "roofline", "Roofline",
        "Each point is an operator with one set of shapes, as large as the GPU's time that it takes. Under the slope "
        "memory is the limit, under the flat lines arithmetic, by the device's data sheet; the higher a point, the "
        f"nearer to it. What stays in the last cache ({peak['cache_bytes'] / 2**20:,.0f} MiB) may lie above the slope, "
        "a convolution by fewer products (Winograd) above its line. The column roofline allows for both: it counts "
        "only what must come from memory and must be multiplied, and may be less than a point's height.",
        "operator_summary", rows, figures.roofline(points, roofs, peak["memory_bytes_s"]),
        rows_are=source.where_other("operator_summary", rows, "without operators whose work or limit is not known"),
    )  # fmt: skip


def _sample_bars(rows: Rows) -> Any:
    """Functions of the CPU: samples in each while a GPU waited, and the others."""
    named = _divided(rows, ("function", "module"), "late_cnt", "sample_cnt")
    late = [("late_cnt", "while a GPU waited for the thread")] if any(row["late_cnt"] for row in named) else []
    series = [*late, ("else", "else" if late else "samples")]
    return figures.stacked_bars(named, "label", series, unit="samples", scale=1)


def _caller_bars(rows: Rows) -> Any:
    """Functions that call CUDA: the time that the CPU waits for a GPU in these calls, and the rest of it."""
    named = _divided(rows, ("caller", "api_name"), "wait_ns", "call_ns")
    return figures.stacked_bars(named, "label", [("wait_ns", "waits for the GPU"), ("else", "else")])


def _divided(rows: Rows, names: tuple[str, str], part: str, whole: str) -> Rows:
    """Of each of the first functions a part and what else makes up the whole, labelled by two of its columns."""
    function, other = names
    return [
        {
            "label": f"{row[function] or '(no symbol)'}, {row[other] or '?'}",
            part: row[part],
            "else": row[whole] - row[part],
        }
        for row in rows[:_BAR_CNT]
    ]


def _bubble_bars(rows: Rows) -> Any:
    """Of each stage what it does in a step, the mean of them all."""
    stages: dict[str, Rows] = {}
    for row in rows:
        rank = "" if row["rank"] is None else f", rank {row['rank']}"
        stages.setdefault(f"stage {row['stage']}{rank}", []).append(row)
    named = [
        {
            "label": label,
            "active_ns": sum(row["active_ns"] for row in own) / len(own),
            "bubble_ns": sum(row["step_ns"] - row["active_ns"] for row in own) / len(own),
        }
        for label, own in stages.items()
    ]
    drawn = figures.stacked_bars(named, "label", [("active_ns", "computes"), ("bubble_ns", "bubble")])
    for trace, kind in zip(drawn["data"], (PARTS["compute"][1], kinds.IDLE), strict=True):
        figures.coloured(trace, kind)
    return drawn


def _lora_time(rows: Rows) -> str:
    """The column that says what a part of a LoRA layer takes: of the GPU, where it has work, else of the CPU."""
    return "gpu_op_ns" if any(row["gpu_op_ns"] for row in rows) else "wall_ns"


def _lora_groups(rows: Rows) -> Any:
    column = _lora_time(rows)
    if not any(row[column] for row in rows):
        return None
    named = [{"where": f"{row['module']} {row['part']}", **row} for row in rows[:_GROUP_CNT]]
    length: Counter[str] = Counter()
    for row in named:
        length[row["where"]] += row[column] or 0
    named.sort(key=lambda row: -length[row["where"]])
    drawn = figures.grouped(named, "where", "direction", column)
    for trace in drawn["data"]:
        direction = trace["name"]
        figures.coloured(trace, direction if direction in kinds.NAMES else None, kinds.of_step(direction))
    return drawn


_SECTIONS: tuple[_Asked | Callable[[Source], Iterable[Section | None]], ...] = (
    timeline_section,
    flame_section,
    _Asked(
        "launching", "Execution against launch",
        "Each range with all that is inside it, the largest loss first. Outline: how long it was open on the CPU; "
        "hatched: the part of that in which none of its work ran (launch overhead). Thin bar: how long its work ran, "
        "also after the range was left, with the backward of its operators. Tick: the CPU's time in launching calls, "
        "waits for the GPU apart.",
        "range_summary",
        "path, range_cnt, launch_cnt, wall_ns, launch_overhead_ns, gpu_busy_ns, launch_api_ns - launch_wait_ns as "
        "launch_ns, launch_wait_ns, queue_ns",
        _launch_bullets,
        "and kind = 'annotation' and launch_cnt > 0 order by launch_overhead_ns desc nulls last, path",
        keys={"path": "range"}, follows=("range",), rows_are="without operators and what launches nothing",
    ),
    _Asked(
        "kernels", "Kernels", "The kernels with the most time.", "kernel_summary",
        "short_name, kernel_cnt, kernel_ns, mean_ns, kernel_name", _kernel_bars,
        "order by kernel_ns desc", keys={"short_name": "kernel"}, follows=("time", "range", "kernel"),
        added_up="kernel", is_of_all=True,
    ),
    _Asked(
        "classes", "Kinds of work", "What the GPU's time goes into.", "kernel_class",
        "class, sum(gpu_op_cnt)::bigint as gpu_op_cnt, sum(gpu_op_ns)::bigint as gpu_op_ns",
        _class_bars,
        "group by class order by gpu_op_ns desc", follows=("time", "range", "kernel"), added_up="class",
        is_of_all=True, rows_are="added up by class",
    ),
    _Asked(
        "operators", "Operators",
        lambda rows: (
            "PyTorch operators by the GPU time of the kernels that they launched."
            if rows[0]["self_gpu_ns"] else "PyTorch operators by their own CPU time, without what they call."
        ),
        "operator_summary",
        "operator, input_shapes, call_cnt, self_cpu_ns, self_gpu_ns, backward_gpu_ns, flop_s, bound, roofline_frac",
        _operator_bars, "order by self_gpu_ns desc, self_cpu_ns desc", is_of_all=True,
    ),
    _roofline,
    counter_sections,
    _Asked(
        "api", "API calls",
        "Calls of the CUDA or HIP API by their time on the CPU. Launches are quick while the queue has room; a long "
        "call waits for the GPU, takes or frees memory, or loads what it needs.",
        "api_summary", "api_name, call_cnt, call_ns, call_frac, mean_ns, max_ns",
        _bars("api_name", "call_ns", "time of calls"), "order by call_ns desc, api_name", is_of_all=True,
    ),
    _Asked(
        "samples", "CPU functions",
        "What the CPU ran whenever the profiler sampled it, by samples in the function itself. A thread that waits has "
        "none. In the table “stack” counts those in what it calls, too.",
        "sample_summary",
        "function, module, sample_cnt, sample_frac, stack_cnt, stack_frac, late_cnt, late_stack_cnt, late_stack_frac",
        _sample_bars, "order by sample_cnt desc, stack_cnt desc, function, module", is_of_all=True,
    ),
    _Asked(
        "callers", "Callers of CUDA",
        "What calls CUDA, of the calls whose stack was recorded: those that take long.",
        "call_stack_summary", "api_name, caller, call_cnt, call_ns, wait_ns, mean_ns, max_ns, module, stack",
        _caller_bars, "order by call_ns desc, api_name, caller, stack", is_of_all=True,
    ),
    _critical,
    _idle,
    _queue,
    _Asked(
        "lora", "LoRA",
        lambda rows: (
            "Base against adapters, forward, backward and recomputed, by "
            f"{'GPU time' if _lora_time(rows) == 'gpu_op_ns' else 'the time that their ranges take on the CPU'}."
        ),
        "lora_summary",
        "module, part, direction, range_cnt, wall_ns, launch_cnt, kernel_cnt, gpu_op_ns, gpu_op_frac", _lora_groups,
        where="source_id = {id} and (select kind_has_work(kind) from source where source_id = {id})", is_of_all=True,
    ),
    memory_sections,
    step_sections,
    ranks_side_by_side,
    _Asked(
        "pipeline", "Pipeline",
        "How much of a step each stage does not compute, beside what equal stages would lose in the same schedule "
        "with as many micro-batches and no cost of sending.",
        "pipeline_bubble", "step, rank, stage, micro_batch_cnt, step_ns, active_ns, bubble_frac, ideal_frac",
        _bubble_bars, "order by step, stage, rank", where="bubble_frac is not null",
        keys={"rank": "rank", "step": "step"},
    ),
    rank_sections,
    _Asked(
        "file", "The file", "What it holds, what is missing and what was lost.", "trace_info",
        "section, item, value, note",
    ),
)  # fmt: skip
