"""The answer for a person: one screen of lines of at most 80 characters."""

import re
import shlex
import textwrap
from collections.abc import Container, Iterator, Sequence
from functools import partial
from itertools import groupby

from rich.cells import cell_len

from .answer import LEAST_FRAC, Row, cause, evidence, unpriced, worth
from .step_text import centre_ns, number_of, says_mean, spread
from .units import keep_begin, keep_end, said_ns

WIDTH = 80
_FINDING_CNT, _CLASS_CNT = 3, 5
_SCREEN_LINES, _EVIDENCE_LINES = 24, 2
# Whether paths of which the last part is cut have lines of their own; how many lines the advice of each finding has.
_ROOM = ((True, (3, 3, 3)), (True, (3, 2, 2)), (True, (2, 2, 2)), (False, (2, 2, 2)))
_CHANGE_WIDTH, _NAME_WIDTH, _INPUT_CNT = 46, 20, 3
_LEAST_SHOWN = 0.001  # of a step: what a change saves at least to have a line of its own
_MUCH_FRAC = 0.15  # of the kernels' time: what a kernel takes at least to be named
_PACING_FRAC = 0.75  # of the compute: where less hangs on it, and less than half of all, the CPU sets the pace
_DEVICE_CNT = 4  # of which the memory is shown
_WHOLE_WIDTH = len("  busy 100.0% = ")
_WORD_WIDTH = 28  # of evidence: a path that is longer would push what stands around it off the screen
_MUCH_MORE = 1.25  # than the time from the first GPU work to the last: what was recorded around it is worth a word
_STRAGGLER = "straggler_rank"
_NOTHING = "nothing is timed in this file: no ranges, CUDA calls or GPU work; record it anew"
# Of steady_state: what is the largest part of the window, and what that means.
_MEANINGS = {
    "compute": "GPU-bound: it computes {:.0%} of the time",
    "communication": "communication-bound: {:.0%} of the time it does nothing else",
    "rank_wait": "ranks wait for one another: this one {:.0%} of the time for later ones",
    "copies": "copy-bound: {:.0%} of the time copies run with nothing beside them",
    "host": "the CPU is late: {:.0%} of the time the GPU waits for it",
    "dependency": "waiting: {:.0%} of the time the GPU is idle though the next work was not late",
    "kernel_wait": "many tiny kernels: {:.0%} of the time is the distance between them",
    "idle": "idle {:.0%} of the time: why is not known",
}
_IDLE = ("host", "dependency", "kernel_wait")
_SNAPSHOT = "allocator snapshot"  # of _recorder
_MISSING = {
    "unrecorded_graph": "kernels of CUDA graphs are missing in {:.0%} of the time",
    "unrecorded_work": "in {:.0%} of the time the CPU waits for missing GPU work",
}


def lines(found: Row) -> Iterator[str]:
    """The answer for a person: lines of at most 80 characters, as much of each advice as a screen has room for."""
    before, behind = list(_measured(found)), list(_more(found))
    window_ns = found["window_ns"] or (found["steady"] or {}).get("window_ns")
    findings = worth(found["findings"], window_ns) if window_ns else []
    if found["clock_shift_ns"]:
        findings = unpriced(findings)
    for has_paths, advice in _ROOM:
        first = [*_first(findings, window_ns, advice, has_paths), *_memory(found["memory_findings"], advice)]
        if len(before) + len(first) + len(behind) <= _SCREEN_LINES:
            break
    yield from [*before, *first, *behind]


def _measured(found: Row) -> Iterator[str]:
    yield from _headline(found)
    parts = shares(found)
    if not parts:
        yield verdict(found)
        for row in found["ranges"]:
            threads = f" in {row['thread_cnt']} threads" if row["thread_cnt"] > 1 else ""
            share = f", open {row['open_frac']:.0%} of the time" if row["open_frac"] is not None else ""
            own = f"{said_ns(row['self_wall_ns'])} of its own{threads}{share}"
            yield _columns(f"  {keep_end(row['path'], WIDTH - 4 - cell_len(own))}", own)
    else:
        yield _cut(verdict(found))
        if (steps := counted(found)) is not None:
            yield _cut(f"  {steps}")
        for doubt in doubts(found):
            yield from textwrap.wrap(doubt, WIDTH, initial_indent="  ", subsequent_indent="  ")
        idle = {name: parts[name] for name in (*_IDLE, "idle") if parts.get(name)}
        busy = {name: parts[name] for name in ("compute", "rank_wait", "communication", "copies")
                if parts.get(name)}  # fmt: skip
        yield _cut(f"  busy {sum(busy.values()):6.1%} = {_sum(busy)}")
        why = f" = {_sum(idle)}" if idle and "idle" not in idle else ""
        yield _cut(f"  idle {sum(idle.values()):6.1%}{why}")
        classes = [
            f"{row['class'].replace('_', ' ')} {row['gpu_op_frac']:.0%}"
            for row in found["classes"][:_CLASS_CNT]
            if row["gpu_op_frac"] >= LEAST_FRAC / 2  # "0%" says nothing
        ]
        while cell_len(line := f"  the GPU's work: {', '.join(classes)}") > WIDTH:
            classes.pop()
        yield line
    phases = [
        f"{'between steps' if name == 'between' else name} {part:.0%}"
        for name, part in found["phases"].items()
        if part >= LEAST_FRAC / 2
    ]
    if phases:
        yield _cut(f"  a step on the CPU: {', '.join(phases)}")
    for row in found["memory"][:_DEVICE_CNT]:
        largest = row["largest_bytes"] or 0
        known = f"{(row['largest'] or '').replace('_', ' ')} ({largest / 2**20:,.0f} MiB"
        known += " guessed)" if row["is_guessed"] else ")"
        part = "most of it" if 2 * largest > row["peak_bytes"] else "largest:"
        if row["unknown_bytes"] > largest:
            part = f"{row['unknown_bytes'] / row['peak_bytes']:.0%} unknown,"
        if 20 * largest < row["peak_bytes"]:  # next to nothing of it
            part, known = "what for is unknown", ""
        yield _cut(f"  memory of {row['device']}: peak {row['peak_bytes'] / 2**20:,.0f} MiB, {part} {known}".rstrip())
    if others := found["memory"][_DEVICE_CNT:]:
        yield f"  and of {len(others)} more, the most of {max(row['peak_bytes'] for row in others) / 2**20:,.0f} MiB"


def doubts(found: Row) -> list[str]:
    """What in the recording makes numbers of the answer wrong, wherever they are shown: with what to do about it."""
    said = []
    if shift := found["clock_shift_ns"]:
        said.append(
            f"clocks: {said_shift(shift)}; why it is idle, waits and savings are not to be trusted: "
            "record again, after warm-up steps"
        )
    if lost := found["cut_off"]:
        missing = f"the last {lost['missing_cnt']:,} of {lost['launch_cnt']:,} launches have no GPU work"
        said.append(f"{missing}: the recording ended early")
    return said


def said_shift(ns: int) -> str:
    """What clocks that were not matched mean."""
    return f"GPU times are {said_ns(abs(ns))} too {'late' if ns > 0 else 'early'} beside the CPU's"


def _more(found: Row) -> Iterator[str]:
    yield from _ranks(found)
    if found["process_cnt"] > 1:
        yield _cut(f"{found['process_cnt']} processes are one input here: `lorabench split` makes each one of its own")
    if found["input_cnt"] > 1:
        yield _cut(f"{found['input_cnt']} inputs; this is one of them: --report rank_summary sets ranks side by side")


def _ranks(found: Row) -> Iterator[str]:
    """Of several ranks the slowest and why, and what does not fit together."""
    window_ns = found["window_ns"] or (found["steady"] or {}).get("window_ns")
    told = [row["rule"] for row in worth(found["findings"], window_ns)] if window_ns else []
    # what makes the rank itself late that is shown is a finding of its own
    slowest = found["slowest"] if _STRAGGLER in told or _is_late(found) else None
    is_listed = _STRAGGLER in told[:_FINDING_CNT]
    if slowest and not is_listed:
        steps = f" of {slowest['step_cnt']}" if slowest["step_cnt"] else ""
        steps += " step" if (slowest["step_cnt"] or slowest["straggler_cnt"]) == 1 else " steps"
        yield _cut(
            f"rank {slowest['rank']} of {slowest['rank_cnt']} is the slowest: "
            f"late in {slowest['straggler_cnt']}{steps}, others waited {said_ns(slowest['kept_waiting_ns'])}"
        )
        if why := cause(slowest, 56):
            yield from textwrap.wrap(f"cause: {why}", WIDTH, initial_indent="  ", subsequent_indent="    ")
    if slowest and slowest["late_host"]:
        behind = said_ns(slowest["host_lag_ns"])
        yield _cut(
            f"{'' if is_listed else '  '}all ranks of {slowest['late_host']} are late, by {behind} in a step (median)"
        )
    if (alike := found["alike"]) and _STRAGGLER not in told and not slowest:
        yield _cut(f"if ranks were alike: steps {said_ns(alike['saving_ns'])} ({alike['saving_frac']:.0%}) shorter")
    for row in found["unfit"]:
        yield _cut(f"  {row['rule'].replace('_', ' ')}: {row['example']}")


def _is_late(found: Row) -> bool:
    return bool(found["slowest"]) and found["slowest"]["rank"] == found["rank"]


def shares(found: Row) -> dict[str, float]:
    """The parts that the window falls into; idle time is one where the clocks do not let launches tell why."""
    parts: dict[str, float] = found["parts"]
    if not parts or not found["clock_shift_ns"]:
        return parts
    busy = {name: share for name, share in parts.items() if name not in _IDLE}
    return {**busy, "idle": sum(parts.get(name) or 0 for name in _IDLE)}


def verdict(found: Row) -> str:
    """What the largest part of the time means, in one sentence."""
    parts = shares(found)
    if not parts:
        if found["recorder"] == _SNAPSHOT:
            return "memory alone: a snapshot has no work"
        return "no GPU work in this file: times are the CPU's" if found["has_times"] else _NOTHING
    if found["classes"] and all(row["class"] == "copy" for row in found["classes"]):
        return f"no kernels in this file: copies and memsets alone, {parts['copies']:.0%} of the time"
    missing = found["unrecorded"]
    if missing and found["window_ns"] and 2 * missing["ns"] > max(parts.values()) * found["window_ns"]:
        return f"not all is recorded: {_MISSING[missing['rule']].format(missing['ns'] / found['window_ns'])}"
    if max(parts, key=lambda name: parts[name]) == "rank_wait":
        return _MEANINGS["rank_wait"].format(parts["rank_wait"])
    return _paced(parts, found["critical_gpu_frac"]) or _meaning(parts, found["kernel"])


def _paced(parts: dict[str, float], critical_gpu_frac: float | None) -> str:
    """That the CPU sets the pace, where the GPU computes much of the time and little hangs on it; else ""."""
    if critical_gpu_frac is None or not parts.get("host") or 2 * parts["compute"] < max(parts.values()):
        return ""
    if critical_gpu_frac >= min(_PACING_FRAC * parts["compute"], 0.5):
        return ""
    most = f"at most {critical_gpu_frac:.0%}" if critical_gpu_frac >= LEAST_FRAC / 2 else "nothing"
    return f"the CPU sets the pace: compute is {parts['compute']:.0%}, but faster kernels save {most}"


def _meaning(parts: dict[str, float], kernel: Row | None) -> str:
    """What the largest part of the window means; of two that are both large that there are two."""
    first, *others = sorted(parts, key=lambda name: -parts[name])
    dominant = ""  # the kernel that takes much of a GPU that computes most of the time
    if first == "compute" and kernel is not None and kernel["kernel_frac"] >= _MUCH_FRAC:
        dominant = f"{kernel['kernel_frac']:.0%} of it in {kernel['short_name']}"
    if others and parts[others[0]] > parts[first] / 2:
        named = [f"{name.replace('_', ' ')} {parts[name]:.0%}" for name in (first, others[0])]
        return f"no single limit: {named[0]} of the time{f' ({dominant})' if dominant else ''}, {named[1]}"
    return _MEANINGS[first].format(parts[first]) + (f", {dominant}" if dominant else "")


def counted(found: Row) -> str | None:
    """What the answer is about where that is not all that was recorded, else None."""
    steady = found["steady"]
    if steady is None or not steady["is_steady"]:
        return None
    cold, outside = found["steps"]["cold_cnt"], steady["recorded_ns"] - steady["window_ns"] - steady["cold_ns"]
    left = []
    if cold:
        left.append(f"the first{'' if cold == 1 else f' {cold}'} ({said_ns(steady['cold_ns'])})")
    if outside > LEAST_FRAC * steady["recorded_ns"]:
        left.append(f"{said_ns(outside)} around")
    steps = number_of(found["steps"])
    if steady["has_rest"]:
        steps += " and what follows"
    return f"{steps}, {said_ns(steady['window_ns'])}; left out: {', '.join(left)}"


def _headline(found: Row) -> Iterator[str]:
    """What it is about, of the name both ends; on a second line what the first has no room for."""
    first, *others = _known(found)
    known = ", ".join([first, *others])
    if cell_len(known) + 2 + _NAME_WIDTH <= WIDTH:
        yield f"{_middle(found['input'], WIDTH - cell_len(known) - 2)}: {known}"
        return
    yield f"{_middle(found['input'], max(WIDTH - cell_len(first) - 3, _NAME_WIDTH))}: {first},"
    yield _cut(f"  {', '.join(others)}")


def _known(found: Row) -> Iterator[str]:
    if steps := found["steps"]:
        apart = spread(steps)
        if says_mean(steps):
            apart = f"the mean; {apart}"
        yield f"{number_of(steps)} of {said_ns(centre_ns(steps))}{f' ({apart})' if apart else ''}"
    if found["window_ns"]:
        recorded, whole = found["steady"]["recorded_ns"], found["whole_ns"] or 0
        of = f" of {said_ns(whole)}" if whole > _MUCH_MORE * recorded else ""
        yield f"GPU window {said_ns(recorded)}{of}"
    elif found["steady"]:
        yield f"{said_ns(found['steady']['recorded_ns'])} recorded"
    if found["device"]:
        yield f"{found['device_cnt']} x {found['device']}" if found["device_cnt"] > 1 else str(found["device"])
    yield str(found["recorder"])


def _first(findings: list[Row], window_ns: int | None, advice_lines: Sequence[int], has_paths: bool) -> Iterator[str]:
    if not findings or not window_ns:
        return
    yield _columns("what to do first", f"would save, of {said_ns(window_ns)}")
    for number, row in enumerate(findings[:_FINDING_CNT], start=1):
        title = f"{number} {row['rule'].replace('_', ' ')}: "
        others = f" and {row['place_cnt'] - 1:,} more" if row["place_cnt"] > 1 else ""
        saving = "not known" if row["saving_ns"] is None else f"{row['saving_ns'] / window_ns:.1%}"
        if row["saving_ns"] is not None and not row["is_predicted"]:
            saving = f"at most {saving}"
        place = keep_end(row["place"] or "(outside all ranges)", WIDTH - len(title) - len(others) - len(saving) - 2)
        yield _columns(f"{title}{place}{others}", saving)
        if has_paths and place.startswith("…") and "/" not in place:
            yield f"  {keep_end(row['place'], WIDTH - 2)}"
        yield from _evidence(evidence(row, window_ns))
        yield from _advice(row["advice"], advice_lines[number - 1])
    if len(findings) > _FINDING_CNT:
        yield f"and {', '.join(row['rule'].replace('_', ' ') for row in findings[_FINDING_CNT:])}"


def _memory(findings: list[Row], advice_lines: Sequence[int]) -> Iterator[str]:
    """What takes memory and can be changed, for what holds memory alone."""
    if findings:
        yield _columns("what to do first", "takes")
    for number, (row, lines_cnt) in enumerate(zip(findings, advice_lines, strict=False), start=1):
        yield _columns(
            f"{number} {row['rule'].replace('_', ' ')}: {row['device']}", f"{row['cost_bytes'] / 2**20:,.0f} MiB"
        )
        yield from _evidence(row["evidence"])
        yield from _advice(row["advice"], lines_cnt)
    if others := [row["rule"].replace("_", " ") for row in findings[len(advice_lines) :]]:
        yield f"and {', '.join(dict.fromkeys(others))}"


def _evidence(text: str) -> Iterator[str]:
    """The clauses that fit into two lines; of a first one that is longer its begin."""
    clauses = " ".join(keep_end(word, _WORD_WIDTH) for word in text.split(" ")).split("; ")
    wrap = partial(textwrap.wrap, width=WIDTH, initial_indent="  ", subsequent_indent="  ")
    while len(clauses) > 1 and len(wrap("; ".join(clauses))) > _EVIDENCE_LINES:
        clauses.pop()
    yield from wrap("; ".join(clauses), max_lines=_EVIDENCE_LINES, placeholder=" …")


def _advice(text: str, most: int) -> Iterator[str]:
    """The sentences that fit into so many lines; of a first one that is longer its begin."""

    def wrapped(said: list[str]) -> list[str]:
        return textwrap.wrap(" ".join(said), WIDTH, initial_indent="  -> ", subsequent_indent="     ",
                             break_on_hyphens=False)  # fmt: skip

    sentences = re.split(r"(?<=\.) (?=[A-Z])", text)
    while len(sentences) > 1 and len(wrapped(sentences)) > most:
        sentences.pop()
    whole = wrapped(sentences)
    yield from whole[: most - 1]
    if len(whole) >= most:
        last = whole[most - 1]
        while len(whole) > most and cell_len(last) > WIDTH - 2:
            last = last.rpartition(" ")[0]
        yield last if len(whole) == most else f"{last} …"


def predictions(rows: list[Row], on_gpu: Container[int]) -> Iterator[str]:
    """Rows of what_if for a person, in lines of at most 80 characters: input by input, the largest saving first.

    `on_gpu` are the inputs with GPU work.
    """
    if not rows:
        yield "no change can be replayed: there is no GPU work and no input in this file"
    inputs = [list(of) for _, of in groupby(rows, key=lambda row: row["source_id"])]
    for number, of_input in enumerate(inputs[:_INPUT_CNT]):
        if len(inputs) > 1:
            yield from ([""] if number else [])
            rank = of_input[0]["rank"]
            yield f"input {number + 1}:" if rank is None else f"rank {rank}:"
        yield from _of_input(of_input, of_input[0]["source_id"] in on_gpu)
    if len(inputs) > _INPUT_CNT:
        yield from ("", f"{len(inputs) - _INPUT_CNT} more inputs: --csv has all, or name one of them alone")


def _of_input(rows: list[Row], has_gpu: bool) -> Iterator[str]:
    known = [row for row in rows if row["saving_ns"] is not None]
    if known:
        before = said_ns(known[0]["step_ns"] + known[0]["saving_ns"])
        error = max(row["replay_error_frac"] or 0 for row in known)
        count = known[0]["step_cnt"]
        what = "the recording" if count is None else f"{count:,} step{'s' if count > 1 else ''}"
        what += ", GPU work included" if count is not None and has_gpu else ""
        each = " each" if (count or 1) > 1 else ""
        yield _cut(f"{what}: {before}{each}, replayed within {error:.1%}; with a change")
    said = None
    for row in rows:
        change = _short_change(row["change"])
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


def _short_change(change: str) -> str:
    """What is changed and the end of the place."""
    kind, equals, place = change.partition("=")
    return f"{kind}{equals}{keep_end(place, _CHANGE_WIDTH - len(kind) - 1)}"


def next_steps(found: Row, inputs: Sequence[str]) -> list[str]:
    """What to type next, ready to be pasted: a longer input gets a name of its own before."""
    if verdict(found) == _NOTHING:
        by_torch = found["recorder"] == "torch.profiler"
        recording = "torch.profiler, activities=[CPU, CUDA]" if by_torch else "nsys profile --trace=cuda,nvtx"
        return [f"next: record with {recording}"]
    is_memory = found["recorder"] == _SNAPSHOT
    asked = ("query {} memory_finding", "query {} memory_peak") if is_memory else ("what-if {}", "query {} finding")
    commands = ("report {} --open", *asked)
    named, said = shlex.join(inputs), []
    if cell_len(named) > WIDTH - len("next: lorabench ") - max(map(len, commands)):
        if len(inputs) == 1:  # the one line that may be longer: a path that is cut cannot be pasted
            said, named = [f"INPUT={named}"], '"$INPUT"'
        else:
            named = "INPUTS"
    said += [f"lorabench {text.format(named)}" for text in commands]
    return [f"{'' if number else 'next:':6}{text}" for number, text in enumerate(said)]


def _sum(parts: dict[str, float]) -> str:
    """The parts behind the whole; where a line has no room for all those that are worth a word."""
    told = [f"{name.replace('_', ' ')} {value:.1%}" for name, value in parts.items()]
    if cell_len(" + ".join(told)) > WIDTH - _WHOLE_WIDTH:
        told = [text for text, value in zip(told, parts.values(), strict=True) if value >= LEAST_FRAC / 2]
    return " + ".join(told)


def _middle(name: str, places: int) -> str:
    """A file's name that keeps both ends."""
    half = places // 2
    return name if cell_len(name) <= places else keep_begin(name, half) + keep_end(name, places - half)[1:]


def _columns(left: str, right: str) -> str:
    left = keep_begin(left, WIDTH - cell_len(right) - 1)
    return left + " " * (WIDTH - cell_len(right) - cell_len(left)) + right


def _cut(line: str) -> str:
    return keep_begin(line, WIDTH)
