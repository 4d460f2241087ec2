"""Several inputs: each is read by a process of its own into a database of its own, and these are put together.

So the cores are used, memory is what the workers take, a file that cannot be read stops no other, and what an
interrupted analysis had finished is not read again. Run as a program it is such a worker.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from .. import modules, sql
from ..allocators import tune
from ..errors import InputError, LorabenchError, OutputError, ToolError, leaving
from ..progress import Progress, Silent
from ..sql import literal, quoted
from ..vocabulary import WHOLE_FILE
from . import ingest
from .read import inputs
from .read.identity import identity
from .read.inputs import Input
from .store.blank import Shape
from .store.building import building
from .store.database import Database
from .store.limits import share
from .store.opening import kept
from .store.settings import Settings

# A worker loads numpy, DuckDB and pyarrow, which takes longer than reading this much.
WORTH_A_WORKER = 16 << 20
_WORKER_MEMORY = 1 << 30  # that one takes for a file of 1 GB
_POLL_S = 0.2

# The tables with a key of their own, and the columns that hold it.
_KEYS = {
    "range": ("range_id", "parent_id", "operator_id"),
    "range_path": ("path_id", "parent_path_id"),
    "attribution": ("attribution_id",),
    "gpu_op": ("gpu_op_id",),
    "api_call": ("api_call_id",),
    "collective": ("collective_id",),
}
_NAMES = ("name_id", "text_id", "shape_id", "stack_id", "module_id", "counter_id")
_FILLED = "select table_name from duckdb_tables() where database_name = 'part' and estimated_size > 0"
_NOT_COPIED = ("threshold", "kernel_class_rule", "device_peak", "memory_category", "name")


@dataclass(frozen=True)
class Problem:
    """Why an input has no part; a worker that was killed may do better the next time."""

    text: str
    is_final: bool = True


def read(database: Database, found: list[Input], folder: Path, settings: Settings, progress: Progress) -> bool:
    """Fill a database from several inputs, whose parts lie in the folder until somebody removes it.

    An input that cannot be read is a source without rows and a fact of it (section 'lost', item 'the whole file').
    Returns whether all has been read that can be: else another analysis is worth while. Raises InputError when none can
    be read, OutputError when a part cannot be written.
    """
    numbered = [(item, folder / f"{number}.duckdb") for number, item in enumerate(found, start=1)]
    with leaving(lambda: _said_of_finished(part for _, part in numbered)):
        problems = _make(numbered, settings, progress)
    if len(problems) == len(found):
        shutil.rmtree(folder, ignore_errors=True)
        raise InputError(f"none of the {len(found)} inputs can be read; the first: {problems[numbered[0][1]].text}")
    progress.step("putting the parts together", len(found))
    for source_id, (item, part) in enumerate(numbered, start=1):
        if problem := problems.get(part):
            ingest.add_source(database, source_id, item, is_final=problem.is_final)
            database.connection.execute(
                "insert into source_fact (source_id, section, item, value) values (?, 'lost', ?, ?)",
                [source_id, WHOLE_FILE, problem.text],
            )
        else:
            append(database, part, source_id)
        progress.advance(1)
    return all(problem.is_final for problem in problems.values())


def _said_of_finished(parts: Iterable[Path]) -> str:
    """What lies in a folder of parts when it is interrupted."""
    cnt = sum(part.is_file() for part in parts)
    return f"what was read of {cnt} of the inputs is kept, and the same command resumes with the others" if cnt else ""


def _make(numbered: list[tuple[Input, Path]], settings: Settings, progress: Progress) -> dict[Path, Problem]:
    """Make the parts that are not there yet; why there is none, for those that cannot be made."""
    problems = {part: Problem(item.problem) for item, part in numbered if item.problem}
    wanted = [(item, part) for item, part in numbered if part not in problems and not is_current(part, item, settings)]
    count = worker_cnt(sum(item.content_bytes >= WORTH_A_WORKER for item, _ in wanted))
    if not count:
        progress.step(f"reading {len(wanted)} files", len(wanted))
        for item, part in wanted:
            text = make_part(item, part, settings)
            if text is not None:
                problems[part] = Problem(text)
            progress.advance(1)
        return problems
    found = dict(zip((part for _, part in wanted), read_in_workers(wanted, count, settings, progress), strict=True))
    killed = [(item, part) for item, part in wanted if (problem := found[part]) and not problem.is_final]
    for one in killed:  # alone, each has all the memory
        (found[one[1]],) = read_in_workers([one], 1, settings, progress)
    return problems | {part: problem for part, problem in found.items() if problem is not None}


def make_part(item: Input, part: Path, settings: Settings) -> str | None:
    """Make a database of one input, with no more views than reading needs; what is wrong with the input, None when
    nothing is.

    Raises OutputError when the part cannot be written.
    """
    try:
        with building(part, settings, Shape.PART) as new:
            ingest.fill(new, 1, item, Silent())
    except (InputError, ToolError) as error:
        return str(error)
    return None


def worker_cnt(large_cnt: int) -> int:
    """How many workers at a time for so many large inputs: as cores and memory allow; 0 when none pays."""
    room = int(psutil.virtual_memory().available // _WORKER_MEMORY)
    count = min(len(os.sched_getaffinity(0)), large_cnt, max(room, 1))
    return count if count > 1 else 0


def read_in_workers(
    wanted: list[tuple[Input, Path]], count: int, settings: Settings, progress: Progress
) -> list[Problem | None]:
    """make_part() in a process for each input, so many at a time.

    Raises what it raises, and whatever stops this process, after the workers ended.
    """
    progress.step(f"reading {len(wanted)} files", len(wanted))
    running: set[subprocess.Popen[str]] = set()
    with ThreadPoolExecutor(count) as pool:
        tasks = [pool.submit(_work, item, part, settings, share(count), running) for item, part in wanted]
        waiting: set[Future[Problem | None]] = set(tasks)
        try:
            while waiting:
                done, waiting = wait(waiting, _POLL_S, FIRST_COMPLETED)
                progress.advance(len(done))
        except BaseException:
            for task in waiting:
                task.cancel()
            for worker in list(running):
                worker.kill()
            raise
    return [task.result() for task in tasks]


def _work(
    item: Input, part: Path, settings: Settings, environment: dict[str, str], running: set[subprocess.Popen[str]]
) -> Problem | None:
    words = modules.command(f"{__package__}.parts", str(item.path.absolute()), str(part.absolute()), settings.text)
    words += ["" if item.process is None else str(item.process), item.whose, str(item.export or "")]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="backslashreplace", env=environment
    ) as worker:
        running.add(worker)
        said, complained = worker.communicate()
        running.discard(worker)
    if worker.returncode == OutputError.exit_code:
        raise OutputError(complained.strip())
    if worker.returncode < 0:
        return Problem(stopped_by(-worker.returncode), is_final=False)
    if worker.returncode:
        last = (complained.strip().splitlines() or ["it said nothing"])[-1]
        return Problem(f"reading it ended with exit code {worker.returncode}: {last}")
    message: str | None = json.loads(said)
    return None if message is None else Problem(message)


def stopped_by(number: int) -> str:
    """What is said of an input on which the process that read it was killed."""
    return f"its reader was stopped by {signal.Signals(number).name}, as when memory runs out; try it alone"


def is_current(part: Path, item: Input, settings: Settings) -> bool:
    """Whether a part left by an earlier analysis holds this input as it is now."""
    try:
        database = kept(part, [identity(item)], settings)
    except LorabenchError:
        return False
    if database is not None:
        database.close()
    return database is not None


def append(database: Database, part: Path, source_id: int) -> None:
    """Put a part's rows into the database as those of one more source."""
    run = database.connection.execute
    run(f"attach {literal(str(part.absolute()))} as part (read_only)")
    try:
        _append_names(database)
        shifts = {
            column: int(database.rows(f"select coalesce(max({columns[0]}) + 1, 0) from {quoted(table)}")[0][0])
            for table, columns in _KEYS.items()
            for column in columns
        }
        filled = {name for (name,) in database.rows(_FILLED)}  # most traces leave most tables empty
        for table in sql.in_folder(sql.TABLES):
            if table.name in filled and table.name not in _NOT_COPIED:
                _append_table(database, table, shifts, source_id)
    finally:
        run("drop table if exists temp.renamed")
        run("detach part")


def _append_names(database: Database) -> None:
    """Add the part's new texts; temp.renamed gets the key of each of its names here."""
    database.connection.execute(sql.statement("names_of_part"))
    database.connection.execute(
        "insert into name by name select ours as name_id, text "
        "from part.name join renamed on theirs = name_id where is_new"
    )


def _append_table(database: Database, table: sql.SqlFile, shifts: dict[str, int], source_id: int) -> None:
    values, joins = [], []
    for column in (c.name for c in table.columns):
        if column == "source_id":
            values.append(str(source_id))
        elif column in _NAMES:
            values.append(f"of_{column}.ours")
            joins.append(f"left join renamed as of_{column} on of_{column}.theirs = part_row.{column}")
        else:
            values.append(f"part_row.{quoted(column)}" + (f" + {shifts[column]}" if column in shifts else ""))
    database.connection.execute(
        f"insert into {quoted(table.name)} select {', '.join(values)} "
        f"from part.{quoted(table.name)} as part_row {' '.join(joins)}"
    )


def main(path: str, part: str, settings: str, process: str, whose: str, export: str) -> None:
    """Make one part; print what is wrong with the input as JSON, null when nothing is."""
    try:
        item = inputs.recognise(Path(path))
        if process:
            item = inputs.of_process(item, int(process), whose)
        item = replace(item, export=Path(export) if export else None)
        print(json.dumps(make_part(item, Path(part), Settings.of_text(settings))))
    except OutputError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    tune()
    main(*sys.argv[1:])
