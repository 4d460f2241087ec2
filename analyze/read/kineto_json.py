"""Reads a torch.profiler chrome trace (Kineto JSON) into the staged tables, a piece at a time (kineto_parse.py)."""

from pathlib import Path

from ... import sql
from ...errors import CorruptInputError, UnknownFormatError
from . import low_rank
from .kineto_notes import Tally, note, of_another_program, why_no_event
from .kineto_parse import TABLES, Parsed, parsing, turn_view, whole_macro
from .staging import Staging

# What events become (or their phase), the staging file that makes it of them, and the table. A piece without such
# events does without the statement, which takes 2 to 8 ms to plan.
_TARGETS = (
    ("range", "kineto_range", "staged_range"),
    ("api_call", "kineto_api_call", "staged_api_call"),
    ("gpu_op", "kineto_gpu_op", "staged_gpu_op"),
    ("sync", "kineto_sync", "sync"),
    ("overhead", "kineto_overhead", "overhead"),
    ("M", "kineto_label", "kineto_label"),
)


def read(path: Path, staging: Staging) -> None:
    """Load one trace into the staged tables.

    Raises UnknownFormatError for JSON that is no trace, CorruptInputError when not one event can be read.
    """
    staging.create_table("kineto_thread", "source_id integer, thread_id bigint, pid bigint, tid bigint")
    staging.create_table("kineto_label", "what varchar, pid bigint, tid bigint, label varchar")
    staging.create_table(
        "kineto_memory",
        "process_id bigint, tid bigint, time_ns bigint, device varchar, bytes bigint, address bigint, "
        "allocated_bytes bigint, reserved_bytes bigint, is_before boolean",
    )
    staging.define("whole_text", "label", "kineto_whole_text")
    staging.define("whole_written", "number", "kineto_whole_of_text")
    staging.progress.step("events", path.stat().st_size)
    done = 0
    # DuckDB gains nothing by two threads on one piece: the second thread loads the piece before
    with staging.in_order(), parsing(path, staging.database.connection) as parser:
        tally = Tally(parser.lost)
        with staging.ahead(parser) as pieces:
            for piece in pieces:
                _load(piece, tally, staging)
                staging.progress.advance(piece.read_bytes - done)
                done = piece.read_bytes
        if not any(phase for phase, _, _ in tally.events):
            raise CorruptInputError(f"{path} holds no event that can be read" + why_no_event(tally, parser.pieces))
        if foreign := of_another_program(tally, parser.pieces):
            raise UnknownFormatError(f"{path} holds no event of torch.profiler: {foreign}")
        _finish(staging)
        note(tally, parser.pieces, staging)


def _load(piece: Parsed, tally: Tally, staging: Staging) -> None:
    """Stage the rows of a piece and count its events."""
    run = staging.database.connection.execute
    for table, is_there in zip(TABLES, (True, piece.has_memory, piece.has_collective, piece.has_counter), strict=True):
        if is_there:
            run(turn_view(table, piece.turn))
    run(whole_macro(piece.is_text))
    tally.misfit_cnt += piece.misfit_cnt
    staging.intern("select distinct coalesce(name, '') from batch where becomes is not null")
    staging.intern("select distinct shape from batch where shape is not null")
    staging.load("kineto_thread", "kineto_thread")
    present = _count(tally, staging)
    for what, file, into in _TARGETS:
        if what in present:
            staging.load(file, into)
    if piece.has_collective:
        staging.load("kineto_collective", "staged_collective")
        tally.misfit_cnt += staging.scalar(sql.staging("kineto_collective_misfit"))
    if piece.has_counter:
        staging.intern("select counter from counter_batch")
        staging.intern("select name from batch semi join counter_batch using (position)")
        staging.load("kineto_counter", "staged_kernel_counter")
        tally.misfit_cnt += staging.scalar("select count(counter) - count(value) from counter_batch")
    if piece.has_memory:
        ((loaded,),) = run("insert into kineto_memory from memory_batch where bytes + time_ns is not null").fetchall()
        memory_cnt = staging.scalar("select count(*) from memory_batch")
        tally.memory_cnt += memory_cnt
        tally.memory_lost_cnt += memory_cnt - loaded


def _count(tally: Tally, staging: Staging) -> set[str | None]:
    """Count the events of the batch; returns their phases and what they become."""
    present: set[str | None] = set()
    for phase, category, becomes, event_cnt, unusable_cnt in staging.database.rows(sql.staging("kineto_count")):
        tally.events[phase, category, becomes] += event_cnt
        tally.unusable[phase, category, becomes] += unusable_cnt
        present |= {phase, becomes}
    return present


def _finish(staging: Staging) -> None:
    """Threads, allocations and the names of ranges, once all events are loaded."""
    staging.load("kineto_thread_done", "thread")
    staging.insert(
        """select reading.source_id, kineto_memory.* exclude (tid), kineto_thread.thread_id
        from kineto_memory
        cross join reading
        left join kineto_thread on kineto_thread.pid = process_id and kineto_thread.tid = kineto_memory.tid""",
        "staged_memory_event",
    )
    staging.drop("kineto_memory")
    staging.columns("staged_range")
    low_rank.add_ranges(staging)
    staging.name_ranges("select text from staged_name semi join staged_range on text_id = name_id")
