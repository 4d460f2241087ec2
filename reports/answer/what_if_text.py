"""Rows of what_if for a person: the change, what the step becomes, what it saves, then what the change is."""

import re
import textwrap
from collections.abc import Iterator, Mapping
from itertools import groupby

from rich.cells import cell_len

from ...analyze.predict.changes import AT_LEAST, FORMS
from ..tables.units import keep_end, said_ns
from ..terminal.screen import WIDTH, columns, wrapped
from .answer import Row
from .verdict_text import said_shift

NOTHING = (
    "nothing can be replayed: there is neither GPU work nor a step (profiler.step(), lorabench.span('step')) with "
    "operators; snapshots have memory alone"
)
_NO_CALLS = (
    "nothing can be replayed: the calls that launched the GPU's work are not recorded (nsys profile --trace=cuda,nvtx; "
    "torch.profiler with ProfilerActivity.CPU)"
)
_CHANGE_WIDTH, _INPUT_CNT = 46, 3
_CUT_WIDTH = WIDTH - 2  # of a line: a change that is longer has to be cut
_LEAST_SHOWN = 0.001  # of a step: what a change saves at least to have a line of its own
_MOST_AROUND = 1.03  # times as long as its steps: what is replayed has more in it, which is said
_TOGETHER = re.compile(f" (?=(?:{'|'.join(FORMS)})=)")
_LEAST_MISSING = 0.05  # of what is replayed: so much time without recorded work is said
_MOSTLY = 0.75  # of the steps: a rank that the others wait for in so many sets the pace of the job


def lines(rows: list[Row], known: Mapping[int, Row]) -> Iterator[str]:
    """Rows of what_if for a person, in lines of at most 80 characters: input by input, the largest saving first.

    Of several inputs the one whose rows come first, then those that save most.

    `known` is what _answer_replay says of each input, and its name.
    """
    if not rows and known and not any(about["has_gpu"] or about["step_ns"] for about in known.values()):
        yield from textwrap.wrap(NOTHING, WIDTH)
    elif not rows and known and all(about["has_launches"] is False for about in known.values()):
        yield from textwrap.wrap(_NO_CALLS, WIDTH)
    elif not rows:
        yield "no standard change applies: there is no GPU work, and no range loads input"
        yield "ask for one: --change batch=4, cpu=*:0.5, scale=OPERATOR:0.5, skip=PATH, fuse=PATH"
    inputs = [list(of) for _, of in groupby(rows, key=lambda row: row["source_id"])]
    inputs[1:] = sorted(inputs[1:], key=_most, reverse=True)
    for number, of_input in enumerate(inputs[:_INPUT_CNT]):
        if len(inputs) > 1:
            yield from ([""] if number else [])
            rank = of_input[0]["rank"]
            yield f"{known[of_input[0]['source_id']]['name']}:" if rank is None else f"rank {rank}:"
        yield from _of_input(of_input, known[of_input[0]["source_id"]])
    if len(inputs) > _INPUT_CNT:
        alone = "name one of them alone" if rows[0]["rank"] is None else "choose one with --rank"
        yield from ("", f"{len(inputs) - _INPUT_CNT} more inputs, which save no more: --csv has all, or {alone}")


def of_ranks(slowest: Row | None) -> Iterator[str]:
    """Of ranks of one job that each is replayed by itself, and which one's saving is the most that the job can save.

    `slowest` is the job's row of _slowest_rank.
    """
    whose = "the job is as fast as its slowest rank"
    if slowest and slowest["straggler_cnt"] >= _MOSTLY * slowest["step_cnt"]:
        rank = f"rank {slowest['rank']}"
        whose = f"the others wait for {rank}, so the job saves at most about what {rank} does"
    alone = "ranks of one job, each replayed by itself: what it waits for the others stays as it was"
    yield from textwrap.wrap(f"{alone}; {whose}", WIDTH)


def _most(rows: list[Row]) -> float:
    """The largest saving of an input in whole hundredths: what is alike stays in its order."""
    return round(max((row["saving_frac"] or 0.0 for row in rows), default=0.0), 2)


def _of_input(rows: list[Row], about: Row) -> Iterator[str]:
    if about["shift_ns"] is not None:
        doubt = f"clocks: {said_shift(about['shift_ns'])}; a replay begins with launches, so savings are"
        yield from textwrap.wrap(f"{doubt} not to be trusted", WIDTH, subsequent_indent="  ")
    known = [row for row in rows if row["saving_ns"] is not None]
    scale = 1
    if known:
        step_ns, count = known[0]["step_ns"] + known[0]["saving_ns"], known[0]["step_cnt"]
        whole_ns = step_ns * (count or 1)
        has_more = count is not None and about["step_ns"] is not None and step_ns > _MOST_AROUND * about["step_ns"]
        turns, odd = divmod(count or 1, about["turn_cnt"] or count or 1)
        turns = 1 if odd or has_more else turns
        scale = count if has_more else turns
        error = max(row["replay_error_frac"] or 0 for row in known)
        measured = _what(count, about, has_more, step_ns, turns)
        yield from wrapped([f"{measured}replayed within {error:.1%}; with a change"])
        if about["missing_ns"] > _LEAST_MISSING * whole_ns:
            missing = (
                f"  for {said_ns(about['missing_ns'])} of it nothing is recorded of what the GPU does; savings are"
            )
            yield from textwrap.wrap(f"{missing} fractions of all", WIDTH, subsequent_indent="  ")
        if about["input_ns"] > _LEAST_MISSING * whole_ns:
            late = (
                f"  for {said_ns(about['input_ns'])} of all the GPU waits for input: where workers load it that sets "
                "the pace, and until it comes sooner other changes save less than here"
            )
            yield from textwrap.wrap(late, WIDTH, subsequent_indent="  ")
    said = None
    for row in rows:
        *others, change = _each_change(row["change"])
        if row["saving_ns"] is None:
            yield from others
            yield columns(f"  {change}", "not known")
        elif abs(row["saving_frac"]) >= _LEAST_SHOWN or len(rows) == 1:
            yield from others
            yield columns(f"  {change}", f"{said_ns(row['step_ns'] * scale)}  saves {_frac(row['saving_frac'])}")
        elif AT_LEAST in row["note"]:
            yield from others
            yield columns(f"  {change}", "not known")
        else:
            continue
        if row["note"] != said:
            yield from textwrap.wrap(row["note"], WIDTH, initial_indent="      ", subsequent_indent="      ")
        said = row["note"]
    if none := [row["change"] for row in known if _is_nothing(row) and len(rows) > 1]:
        fitting = (change if cell_len(change) < _CUT_WIDTH else _short_change(change) for change in none)
        said = f"less than {_LEAST_SHOWN:.1%}: {', '.join(fitting)}"
        # what is cut cannot be pasted
        yield from textwrap.wrap(said, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def _is_nothing(row: Row) -> bool:
    return abs(row["saving_frac"]) < _LEAST_SHOWN and AT_LEAST not in row["note"]


def _what(count: int | None, about: Row, has_more: bool, step_ns: float, turns: int) -> str:
    """What is replayed and how long it takes: a step, or all where much lies before and behind the steps.

    turns: so many rows of step_summary are one step, as of adapters in turn.
    """
    if count is None:
        return f"the recording: {said_ns(step_ns)}, "
    steps = f"{count // turns:,} step{'s' if count > turns else ''}{f' of {turns} turns' if turns > 1 else ''}"
    if has_more:
        return f"{steps} of {said_ns(about['step_ns'])}, in all {said_ns(step_ns * count)}, "
    step_ns, count = step_ns * turns, count // turns
    included = ", GPU work included" if about["has_gpu"] else ""
    return f"{steps}{included}: {said_ns(step_ns)}{' each' if count > 1 else ''}, "


def _frac(saving: float) -> str:
    """A part of a step; what rounds to nothing has no sign."""
    return f"{round(saving, 3) + 0.0:6.1%}"


def _each_change(text: str) -> list[str]:
    """Changes that are made together, in one text if there is room, else each in a line of its own."""
    if cell_len(text) <= _CHANGE_WIDTH:
        return [text]
    *others, last = (_short_change(change) for change in _TOGETHER.split(text))
    return [*(f"  {change} and" for change in others), last]


def _short_change(change: str) -> str:
    """What is changed and the end of the place."""
    kind, equals, place = change.partition("=")
    return f"{kind}{equals}{keep_end(place, _CHANGE_WIDTH - len(kind) - 1)}"
