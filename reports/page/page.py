"""The page about one recording: where its time and memory go, and what to do first."""

from collections.abc import Sequence
from pathlib import Path

from ...analyze.store.database import Database
from ...errors import InputError, UsageError
from ...sql import literal
from ...vocabulary import SOURCE_SNAPSHOT
from ..answer import answer, verdict_text
from ..tables.sources import shown
from ..tables.units import said_ns
from . import html, run
from .cards import cards
from .first import first
from .kernel_drawer import kernels
from .memory_sections import MEMORY_FINDINGS
from .receipt import receipt
from .said import HAS_UNIT
from .section import Section, Source
from .sections import sections
from .window import Window

# The views that a page reads.
_ASKED = (
    "api_summary", "call_stack_summary", "finding", "gpu_timeline_summary", "idle_summary", "kernel_class",
    "kernel_metric_summary", "kernel_summary", "lora_summary", "memory_by_category", "memory_finding",
    "memory_fragmentation", "memory_peak", "memory_phase", "memory_timeline", "operator_summary", "out_of_memory",
    "queue_length", "range_summary", "rank_summary", "sample_summary", "steady_state", "step_statistics",
    "step_summary", "trace_info", "_memory_phase_stretch", "_page_block", "_page_counter", "_page_critical",
    "_page_flame", "_page_idle", "_page_kernel", "_page_longest", "_page_memory", "_page_name", "_page_op",
    "_page_queue", "_page_range", "_page_step", "_predicted_finding", "_steady_class", "_steady_kernel", "_steady_time",
)  # fmt: skip
_MUCH_MORE = 1.25  # than the GPU window: what was recorded around it is worth a word


def write(
    database: Database,
    path: Path,
    inputs: Sequence[Path] = (),
    window: Window | None = None,
    rank: int | None = None,
) -> list[Section]:
    """Write the page of a database to a file. Of several inputs one is shown, and the others beside it by rank.

    rank: whose input is shown; None is the lowest with GPU work.
    window: the stretch of time of which the timeline has every operation; all else is about the whole recording.
    Of inputs that are one run directory the page quotes the timing pass. Returns the sections that it has. Raises
    InputError for a database without inputs that could be read, OutputError when the file cannot be written, UsageError
    for a window without anything of the recording.
    """
    source = Source(database, shown(database, rank), window)
    measured = run.of(list(inputs))
    with database.computing_once(_ASKED):
        made = sections(source)
        if window is not None and not any(section.kind == "timeline" for section in made):
            raise UsageError(f"--window {window.text}: {source.name} has no timeline")
        answered = answer.answer(database, rank)
        said = _said(answered)
        name = measured.name if measured else str(source.name)
        told, changes = cards(source, measured), first(source)
        asks_nothing = source.kind == SOURCE_SNAPSHOT and not (changes.changes or changes.every)  # it knows no time
        made = [found for found in made if found.name != MEMORY_FINDINGS or len(found.rows) > changes.memory_cnt]
        html.write(
            path,
            name,
            _about(source, answered, measured, made),
            made,
            told,
            None if asks_nothing else changes,
            said,
            receipt(name, said, answered["parts"], told, changes.changes),
            kernels(source),
            names=_names(source),
        )
    if source.problems:
        raise InputError(f"{path} lacks {len(source.problems)} sections: {source.problems[0]}")
    return made


def _names(source: Source) -> list[str]:
    """Names that sentences must not change: those of inputs, and those in which something looks like a unit."""
    like = source.rows(f"select distinct text from name where regexp_matches(text, {literal(HAS_UNIT)}) limit 1000")
    return [row["text"] for row in source.rows("select name as text from source where name is not null") + like]


def _said(answered: answer.Row) -> list[str]:
    """The verdict, what it is of, and what makes it doubtful."""
    around = (verdict_text.counted(answered), _window(answered), *verdict_text.doubts(answered),
              verdict_text.alone(answered), *verdict_text.losses(answered))  # fmt: skip
    return [verdict_text.verdict(answered), *(line for line in around if line is not None)]


def _window(answered: answer.Row) -> str | None:
    """How little of what was recorded lies between the first GPU work and the last, where much lies around it."""
    recorded = (answered["steady"] or {}).get("recorded_ns", 0) if answered["window_ns"] else 0
    if not recorded or (answered["whole_ns"] or 0) <= _MUCH_MORE * recorded:
        return None
    return (
        f"the GPU window, from its first work to its last, is {said_ns(recorded)} of the "
        f"{said_ns(answered['whole_ns'])} that were recorded"
    )


def _about(source: Source, answered: answer.Row, measured: run.Run | None, made: Sequence[Section]) -> str:
    """What was read, which of several inputs is shown, and which part of it."""
    about = [f"{source.subtitle()}."]
    if answered["input_cnt"] > 1 and measured is None:
        rank = verdict_text.rank_of(answered)
        which = f"This is {rank}; --rank N shows another" if rank else f"One of {answered['input_cnt']} inputs"
        beside = next((section.title for section in made if section.name == "ranks"), None)
        if beside is not None:
            about.append(f"{which}: the section {beside} has the others beside it.")
        else:
            about.append(f"{which}: {source.name}.")
    if source.window is not None:
        about.append("The timeline is a window; what is added up of it says so, all else is of the whole recording.")
    if measured is not None:
        about.append("Pictures and tables are of the profiled pass; times without a profiler are named.")
    return " ".join(about)
