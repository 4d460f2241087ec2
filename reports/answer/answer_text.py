"""The answer for a person: one screen of lines of at most 80 characters."""

import re
import textwrap
from collections.abc import Iterator, Sequence
from functools import partial

from rich.cells import cell_len

from ..tables.units import keep_begin, keep_end, said_ns
from ..terminal.screen import WIDTH, columns, cut, wrapped
from . import answer, collective_text, rank_picture
from .answer import BUSY, IDLE, LEAST_FRAC, Row, bound, cause, is_hardly_used, part, where, worth
from .counter_text import counters
from .step_text import centre_ns, is_uneven, late_in, number_of, says_mean, spread
from .verdict_text import alone, counted, doubts, rank_of, tail_text, verdict

_FINDING_CNT, _CLASS_CNT = 3, 5
_NAME_WIDTH = 20
SCREEN_LINES = 24
_ALL = 1000  # lines: nothing is cut
# Whether paths of which the last part is cut have lines of their own; how many lines the advice of each finding has,
# and its evidence.
_ROOM = (
    (True, (_ALL, _ALL, _ALL), _ALL),
    (True, (3, 3, 3), 2),
    (True, (3, 2, 2), 2),
    (True, (2, 2, 2), 2),
    (False, (2, 2, 2), 2),
    (False, (2, 1, 1), 2),
    (False, (1, 1, 1), 2),
)
_DEVICE_CNT = 4  # of which the memory is shown
_WHOLE_WIDTH = len("  busy 100.0% = ")
_LAST_CLAUSE = re.compile(r"(?<=\w[,;]|\)[,;]) [^,;]*$")  # what is cut ends behind a comma, where there is one
_PLACE_WIDTH = 44  # of the place that evidence is about
_CALL_WIDTH = 48  # of evidence: one that is no path
_WORD_WIDTH = 28  # of evidence: a path that is longer would push what stands around it off the screen
_MUCH_MORE = 1.25  # than the time from the first GPU work to the last: what was recorded around it is worth a word
_MUCH_ELSE = 0.05  # in no phase: what is said would seem to be all
_BUSY = ("compute", "communication", "copies")  # parts of the window: what a phase launches
_BUSY_HALF, _ALL_BUSY = 0.5, 0.9  # of the window: from here on phases of the GPU's work count, and they alone
_KNOWN_HALF = 0.5  # of the GPU's work: of less in phases nothing is said
_LEAST_SAID = 0.0005  # of the window: less is 0.0%
_MUCH_AROUND = 0.1  # of the time around it: a call that takes as much is named
_STRAGGLER = "straggler_rank"
_PHASES = {"between": "between steps", "no_grad": "forward without gradient"}
_OTHER_STEPS = 0.05  # how far the mean of the usual steps is from that of all where some evaluate or save
_MUCH_COMMUNICATION = 0.1  # of the window: some of it may be waiting for a rank that is not here


def lines(found: Row, height: int | None = SCREEN_LINES) -> Iterator[str]:
    """The answer for a person: lines of at most 80 characters, as much of each advice as a screen has room for.

    height: of the screen; None where there is no end of it, as in a file.
    """
    before, behind = list(_measured(found)), list(_ranks(found))
    picture = list(rank_picture.lines(found["rank_steps"])) if found["rank_steps"] else []
    window_ns = answer.window_ns(found)
    findings = worth(found["findings"], window_ns) if window_ns else []
    for has_paths, advice, evidence in _ROOM:
        first = list(_first(findings, window_ns, advice, evidence, has_paths))
        first += _memory(found, bool(findings), advice, evidence)
        if height is None or len(before) + len(first) + len(behind) <= height:
            break
    if not first and answer.has_work(found):
        first = [f"what to do first: no rule finds a hundredth of {said_ns(window_ns or 0)} to save"]
    shown = [*before, *first, *behind]
    yield from shown
    for more in (picture, list(collective_text.lines(found["collectives"]))):
        if height is None or len(shown) + len(more) <= height:
            shown += more
            yield from more


def _measured(found: Row) -> Iterator[str]:
    yield from _headline(found)
    yield from _of_several(found)
    if found["unprofiled_ns"] and found["steps"]:
        yield from wrapped([f"  without a profiler {_unprofiled(found)}; all else here is profiled"])
    yield from _of_gpu(found) if found["parts"] else _of_cpu(found)
    yield from _phases(found)
    yield from _peaks(found)


def _unprofiled(found: Row) -> str:
    """What a step takes there and waits for input: both on average, or the median where nothing waits and that is all.

    Uneven steps are said by their mean on either side: the median of one would be held against the mean of the other.
    """
    median, mean, waited = found["unprofiled_ns"], found["unprofiled_mean_ns"], found["unprofiled_wait_ns"] or 0
    waits = waited >= LEAST_FRAC * median
    says = mean and (waits or says_mean(found["steps"]) or is_uneven(mean, median))
    rank = "" if found["waiting_rank"] is None else f"that of rank {found['waiting_rank']} "
    step = f"a step takes {said_ns(mean)} on average" if says else f"the median step takes {said_ns(median)}"
    if not waits:
        return step
    usual = found["waiting_step_ns"]
    if mean and usual and abs(mean / usual - 1) > _OTHER_STEPS:
        return f"{step}; those that do not evaluate {said_ns(usual)}, {rank}waiting {said_ns(waited)} of it for input"
    return f"{step}, {rank}waits {said_ns(waited)} of it for input"


def _phases(found: Row) -> Iterator[str]:
    """What parts the GPU's work has where it is what takes the time, and a step on the CPU; nothing if not known."""
    busy = sum(found["parts"].get(name, 0.0) for name in _BUSY)
    work = dict(found["gpu_phases"])
    work.pop("other", None)
    is_of_gpu = busy >= _BUSY_HALF and sum(work.values()) >= _KNOWN_HALF
    if is_of_gpu:
        again = work.pop("recompute", 0.0)
        if again:
            work["backward"] = work.get("backward", 0.0) + again
        whole = "by phase, with what follows the steps" if (found["steady"] or {}).get("has_rest") else "by phase"
        yield from _in_phases(whole, work, again)
    if not is_of_gpu or busy < _ALL_BUSY:
        yield from _in_phases("a step on the CPU", found["phases"], found["recompute_frac"])


def _in_phases(what: str, shares: dict[str, float], again: float) -> Iterator[str]:
    """again: how much of the whole the backward computes again."""
    phases = [
        f"{_PHASES.get(name, name)} {part:.0%}"
        + (f" ({again:.0%} recomputed)" if name == "backward" and again >= LEAST_FRAC else "")
        for name, part in shares.items()
        if part >= LEAST_FRAC / 2
    ]
    rest = 1 - sum(shares.values())
    others = [f"else {rest:.0%}"] if rest >= _MUCH_ELSE else []
    says = any(part >= _MUCH_ELSE or name != "between" for name, part in shares.items())
    if phases and says:
        yield from wrapped([f"  {what}: {', '.join([*phases, *others])}"])


def _of_cpu(found: Row) -> Iterator[str]:
    """What took the time where no GPU work is recorded, and what the profiler said of that."""
    yield verdict(found)
    for text in found["diagnostics"]:
        yield from textwrap.wrap(f"nsys: {text}", WIDTH, initial_indent="  ", subsequent_indent="  ", max_lines=3)
    for row in found["ranges"]:
        threads = f" in {row['thread_cnt']} threads" if row["thread_cnt"] > 1 else ""
        share = f", open {row['open_frac']:.0%} of the time" if row["open_frac"] is not None else ""
        own = f"{said_ns(row['self_wall_ns'])} of its own{threads}{share}"
        yield columns(f"  {keep_end(row['path'], WIDTH - 4 - cell_len(own))}", own)
    for row in [] if found["ranges"] else found["calls"]:
        calls = f"{row['call_cnt']:,} call{'s' if row['call_cnt'] > 1 else ''}"
        yield columns(f"  {row['api_name']}", f"{said_ns(row['call_ns'])} in {calls}")


def _of_gpu(found: Row) -> Iterator[str]:
    """What the GPU's time is, in parts that add up to the window."""
    parts = found["parts"]
    yield from wrapped([_fitting(verdict(found), found["kernel"])])
    yield from _around(found)
    if found["tail"]:
        yield from wrapped([f"  then the step goes on for {tail_text(found)}, which is not in this:"])
    if (steps := counted(found)) is not None:
        yield from wrapped([f"  {steps}"])
    for doubt in doubts(found):
        yield from textwrap.wrap(doubt, WIDTH, initial_indent="  ", subsequent_indent="  ")
    idle = {name: parts[name] for name in (*IDLE, "idle") if parts.get(name)}
    busy = {name: parts[name] for name in BUSY if parts.get(name)}
    yield from wrapped([f"  busy {sum(busy.values()):6.1%} = {_sum(busy)}"])
    why = f" = {_sum(idle)}" if idle and "idle" not in idle else ""
    yield from wrapped([f"  idle {sum(idle.values()):6.1%}{why}"])
    if parts.get("unrecorded", 0) >= _LEAST_SAID:
        yield f"  not recorded {parts['unrecorded']:.1%}: whether busy or idle is not known"
    classes = [
        f"{row['class'].replace('_', ' ')} {row['gpu_op_frac']:.0%}"
        for row in found["classes"][:_CLASS_CNT]
        if row["gpu_op_frac"] >= LEAST_FRAC / 2  # "0%" says nothing
    ]
    while cell_len(line := f"  the GPU's work: {', '.join(classes)}") > WIDTH:
        classes.pop()
    yield line
    yield from counters(found["counters"])


def _peaks(found: Row) -> Iterator[str]:
    """How high memory came on each device, and what most of it is."""
    for row in found["memory"][:_DEVICE_CNT]:
        recorded = f" ({row['input']})" if row["input"] else ""
        whose = f" in one of {row['process_cnt']} processes" if row["process_cnt"] > 1 else ""
        since = " since the recording began" if row["is_from_zero"] else ""
        held = f"  memory of {row['device']}{recorded}: peak {row['peak_bytes'] / 2**20:,.0f} MiB{since}{whose}"
        yield from wrapped([f"{held}, {_held(row)}".removesuffix(", ")])
    if others := found["memory"][_DEVICE_CNT:]:
        yield f"  and of {len(others)} more, the most of {max(row['peak_bytes'] for row in others) / 2**20:,.0f} MiB"


def _held(row: Row) -> str:
    """What most of a peak is for, of a row of _answer_memory."""
    largest, unknown = row["largest_bytes"] or 0, row["unknown_bytes"]
    parts = []
    if unknown > largest:
        is_earlier = 2 * row["before_bytes"] > unknown
        known = f"{row['before_bytes'] / 2**20:,.0f} from before the recording"
        parts.append(known if is_earlier else f"{unknown / 2**20:,.0f} unknown")
    if 20 * largest >= row["peak_bytes"]:  # else next to nothing of it
        parts.append(f"{largest / 2**20:,.0f} {row['largest']}{' (guessed)' if row['is_guessed'] else ''}")
    if graphs := row["graph_bytes"]:
        parts.append(f"besides {graphs / 2**20:,.0f} of CUDA graphs")
    return ", ".join(parts)


def _of_several(found: Row) -> Iterator[str]:
    """That an input is one of several, or several in one."""
    if known := rank_of(found):
        yield f"  this is {known}; another: --rank N, all: --report rank_summary"
    elif told := alone(found):
        yield f"  {told}"
    elif found["input_cnt"] > 1:
        yield f"  one of {found['input_cnt']} inputs; what each is: --report trace_info"
    if found["process_cnt"] > 1:
        yield f"  {found['process_cnt']} processes in one file; `lorabench split` makes each an input of its own"


def _ranks(found: Row) -> Iterator[str]:
    """Of several ranks the one that holds the others up most and why, and what does not fit together."""
    window_ns = answer.window_ns(found)
    told = [row["rule"] for row in worth(found["findings"], window_ns)] if window_ns else []
    # what makes the rank itself late that is shown is a finding of its own
    slowest = found["slowest"] if _STRAGGLER in told or _is_late(found) else None
    is_listed = _STRAGGLER in told[:_FINDING_CNT]
    if slowest and not is_listed:
        steps = late_in(slowest["straggler_cnt"], slowest["step_cnt"] or 0)
        among = f"of the {slowest['rank_cnt']} here " if slowest["rank_cnt"] < (found["world_size"] or 0) else ""
        waited = said_ns(slowest["kept_waiting_ns"])
        yield from wrapped(
            [f"{among}rank {slowest['rank']} holds the others up: late in {steps}, they waited {waited}"]
        )
        if why := cause(slowest, 56):
            yield from textwrap.wrap(f"cause: {why}", WIDTH, initial_indent="  ", subsequent_indent="    ")
    if slowest and slowest["late_host"]:
        behind = said_ns(slowest["host_late_ns"])
        yield from wrapped(
            [f"{'' if is_listed else '  '}all ranks of {slowest['late_host']} are late, by {behind} in a step (median)"]
        )
    if pipeline := found["pipeline"]:
        ideal = "" if pipeline["ideal_frac"] is None else f", ideal {pipeline['ideal_frac']:.1%}"
        parts = "" if pipeline["micro_batch_cnt"] is None else f", {pipeline['micro_batch_cnt']:,} micro-batches"
        bubble = f"bubble {pipeline['bubble_frac']:.1%} of a step{ideal}"
        yield f"pipeline of {pipeline['stage_cnt']} stages{parts}: {bubble}"
    if (alike := found["alike"]) and _STRAGGLER not in told and not slowest:
        saved = f"{said_ns(alike['saving_ns'])} ({alike['saving_frac']:.0%})"
        yield from wrapped([f"if ranks were alike: steps {saved} shorter"])
    for row in found["unfit"]:
        yield cut(f"  {row['rule'].replace('_', ' ')}: {row['example']}{_waited_for(row, found)}")


def _waited_for(unfit: Row, found: Row) -> str:
    """Of missing ranks that the others may wait for them, where that would show: no recording that is here says so."""
    if unfit["rule"] != "rank_missing" or found["parts"].get("communication", 0.0) < _MUCH_COMMUNICATION:
        return ""
    return f"; what waits for {'them' if ',' in unfit['example'] else 'it'} counts as communication"


def _is_late(found: Row) -> bool:
    return bool(found["slowest"]) and found["slowest"]["rank"] == found["rank"]


def _around(found: Row) -> Iterator[str]:
    """What the CPU does where GPU work is next to nothing of what was recorded, or less than what one call takes."""
    if not found["calls"] or found["steady"] is None:
        return
    outside, longest = found["whole_ns"] - found["steady"]["recorded_ns"], found["calls"][0]
    if not found["is_little"] and 2 * longest["call_ns"] < outside:
        return
    text = [f"{said_ns(outside)} lie outside of the window"]
    if is_hardly_used(found["steady"], found["whole_ns"]):  # the verdict has said it
        text = []
    if longest["call_ns"] > _MUCH_AROUND * outside:
        text.append(f"the CPU is in {longest['api_name']} for {said_ns(longest['call_ns'])}")
    if text:
        yield from wrapped([f"  {'; '.join(text)}"])


def _headline(found: Row) -> Iterator[str]:
    """What it is about, of the name both ends; on a second line what the first has no room for."""
    first, *others = _known(found)
    known = ", ".join([first, *others])
    if cell_len(known) + 2 + _NAME_WIDTH <= WIDTH:
        yield f"{_middle(found['input'], WIDTH - cell_len(known) - 2)}: {known}"
        return
    yield f"{_middle(found['input'], max(WIDTH - cell_len(first) - 3, _NAME_WIDTH))}: {first},"
    yield from wrapped([f"  {', '.join(others)}"])


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
    elif recorded := (found["steady"] or {}).get("recorded_ns") or found["whole_ns"]:
        yield f"{said_ns(recorded)} recorded"
    if found["device"]:
        yield f"{found['device_cnt']} x {found['device']}" if found["device_cnt"] > 1 else str(found["device"])
    elif found["device_cnt"] > 1:
        yield f"{found['device_cnt']} GPUs"
    yield str(found["recorder"])


def _first(
    findings: list[Row], window_ns: int | None, advice_lines: Sequence[int], evidence_lines: int, has_paths: bool
) -> Iterator[str]:
    if not findings or not window_ns:
        return
    yield columns("what to do first", f"would save, of {said_ns(window_ns)}")
    advised: dict[str, int] = {}  # by which finding first
    for number, row in enumerate(findings[:_FINDING_CNT], start=1):
        title = f"{number} {row['rule'].replace('_', ' ')}: "
        before, named, others = where(row)
        saving = "not known" if row["saving_ns"] is None else f"{row['saving_ns'] / window_ns:.1%}"
        if row["saving_ns"] is not None:
            saving = f"{bound(row)} {saving}".lstrip()
        place = keep_end(named, WIDTH - len(title) - len(before) - len(others) - len(saving) - 2)
        yield columns(f"{title}{before}{place}{others}", saving)
        if has_paths and place.startswith("…") and "/" not in place:
            yield f"  {keep_end(named, WIDTH - 2)}"
        yield from _evidence(row["evidence"], evidence_lines, part(row, window_ns, _PLACE_WIDTH))
        same = advised.setdefault(row["advice"], number)
        yield from _advice(row["advice"] if same == number else f"As for {same}.", advice_lines[number - 1])
    if len(findings) > _FINDING_CNT:
        yield f"and {', '.join(row['rule'].replace('_', ' ') for row in findings[_FINDING_CNT:])}"


def _memory(found: Row, has_first: bool, advice_lines: Sequence[int], evidence_lines: int) -> Iterator[str]:
    """What takes memory and can be changed; beside what takes time, where there is little room, in a line each."""
    is_asked = found["is_memory_asked"] or not has_first
    findings = answer.memory_worth(found["memory_findings"], is_asked, is_alone=not has_first)
    if findings:
        yield columns("what to do about memory" if has_first or found["parts"] else "what to do first", "takes")
    for number, (row, lines_cnt) in enumerate(zip(findings, advice_lines, strict=False), start=1):
        yield columns(
            f"{number} {row['rule'].replace('_', ' ')}: {row['device']}", f"{row['cost_bytes'] / 2**20:,.0f} MiB"
        )
        if not has_first or lines_cnt > 1:
            yield from _evidence(row["evidence"], evidence_lines)
            yield from _advice(row["advice"], lines_cnt)
    if others := [row["rule"].replace("_", " ") for row in findings[len(advice_lines) :]]:
        yield f"and {', '.join(dict.fromkeys(others))}"


def _evidence(text: str, most: int, before: str = "") -> Iterator[str]:
    """The clauses that fit into so many lines; of a first one that is longer its start."""
    words = [keep_end(word, _WORD_WIDTH if "/" in word else _CALL_WIDTH) for word in text.split(" ")]
    clauses = " ".join(words).split("; ")
    clauses[0] = before + clauses[0]
    wrap = partial(textwrap.wrap, width=WIDTH, initial_indent="  ", subsequent_indent="  ")
    while len(clauses) > 1 and len(wrap("; ".join(clauses))) > most:
        clauses.pop()
    yield from wrap("; ".join(clauses), max_lines=most, placeholder=" …")


def _advice(text: str, most: int) -> Iterator[str]:
    """The sentences that fit into so many lines; of a first one that is longer its start."""

    def filled(said: list[str]) -> list[str]:
        return textwrap.wrap(" ".join(said), WIDTH, initial_indent="  -> ", subsequent_indent="     ",
                             break_on_hyphens=False)  # fmt: skip

    sentences = re.split(r"(?<=\.) (?=[A-Z])", text)
    while len(sentences) > 1 and len(filled(sentences)) > most:
        sentences.pop()
    whole = filled(sentences)
    yield from whole[: most - 1]
    if len(whole) >= most:
        last = whole[most - 1]
        while len(whole) > most and cell_len(last) > WIDTH - 2:
            last = last.rpartition(" ")[0]
        yield last if len(whole) == most else f"{_LAST_CLAUSE.sub('', last)} …"


def _sum(parts: dict[str, float]) -> str:
    """The parts behind the whole; where a line has no room for all those that are worth a word."""
    told = [f"{name.replace('_', ' ')} {value:.1%}" for name, value in parts.items()]
    if cell_len(" + ".join(told)) > WIDTH - _WHOLE_WIDTH:
        told = [text for text, value in zip(told, parts.values(), strict=True) if value >= LEAST_FRAC / 2]
        rest = f"else {sum(value for value in parts.values() if value < LEAST_FRAC / 2):.1%}"
        told += [rest] if rest != "else 0.0%" else []
    return " + ".join(told)


def _fitting(line: str, kernel: Row | None) -> str:
    """A line with a kernel's name, which keeps both ends where there is no room for all: they tell it from others."""
    name = kernel["short_name"] if kernel else ""
    places = cell_len(name) + WIDTH - cell_len(line)
    return line.replace(name, _middle(name, max(places, _NAME_WIDTH))) if name and name in line else line


def _middle(name: str, places: int) -> str:
    """A file's name that keeps both ends."""
    half = places // 2
    return name if cell_len(name) <= places else keep_begin(name, half) + keep_end(name, places - half)[1:]
