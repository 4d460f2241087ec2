"""What to type behind an answer, ready to be pasted."""

import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from rich.cells import cell_len

from ... import rundir
from ...errors import InputError
from ..tables.why_empty import how_to_record
from ..terminal.screen import WIDTH
from .answer import Row, has_work, window_ns, worth
from .verdict_text import CPU_ALONE, NOTHING, SNAPSHOT, verdict

_KEPT = "all.duckdb"  # where several inputs are put together


def lines(found: Row, inputs: Sequence[str], rank: int | None = None) -> list[str]:
    """What to type next, ready to be pasted: a longer input gets a name of its own before. rank: that was asked for."""
    if verdict(found) in (NOTHING, CPU_ALONE):
        recording = how_to_record(found["recorder"])
        if any("driver version" in text and "not supported" in text for text in found["diagnostics"]):
            recording = "a newer nsys, which knows this CUDA driver"
        if any("No CUDA events collected" in text for text in found["diagnostics"]):
            recording += ", the command that uses the GPU"  # nsys was asked for it, and saw none
        return [f"next: record with {recording}"]
    commands = ["report {} --open", *islice([*_improving(found, inputs), *_asked(found)], 2)]
    if len(inputs) > 1:  # which query does not take
        kept = [text.replace("{}", _KEPT) for text in commands if text.startswith("query")][:1]
        others = [text for text in commands if not text.startswith("query")]
        commands = [*others[:1], f"analyze {{}} -o {_KEPT}", *kept] if kept else others
    if rank is not None:
        commands = [f"{text} --rank {rank}" if text.startswith(("report", "query")) else text for text in commands]
    named, said = shlex.join(inputs), []
    if cell_len(named) > WIDTH - len("next: lorabench ") - max(map(len, commands)):
        if len(inputs) == 1:  # the one line that may be longer: a path that is cut cannot be pasted
            said, named = [f"INPUT={named}"], '"$INPUT"'
        else:
            named = "INPUTS"
    said += [f"lorabench {text.format(named)}" for text in commands]
    return [f"{'' if number else 'next:':6}{text}" for number, text in enumerate(said)]


def _improving(found: Row, inputs: Sequence[str]) -> Iterator[str]:
    """What a run that was timed would gain, by each change that is known: of what lorabench trains without training."""
    if len(inputs) == 1 and found["unprofiled_ns"]:
        with suppress(InputError):
            spec = rundir.read_manifest(Path(inputs[0])).get("spec")
            if spec is None or spec.get("parallel", "none") == "none":  # it was not tried with several devices
                yield "improve {}" if spec is None else "improve {} --dry-run"


def _asked(found: Row) -> Iterator[str]:
    """What has an answer in this file, the most telling first."""
    whole_ns = window_ns(found)
    is_at_work = has_work(found)
    if found["recorder"] == SNAPSHOT:
        yield from ("query {} memory_finding", "query {} memory_peak")
    if found["clock_shift_ns"]:
        yield "query {} validation"
    elif is_at_work:
        yield "what-if {}"
    if whole_ns and worth(found["findings"], whole_ns):
        yield "query {} finding"
    if is_at_work:
        yield "query {} kernel_summary"
    yield "query {} range_summary" if found["ranges"] else "query {} api_summary"
    if found["steps"]:
        yield "query {} step_summary"
