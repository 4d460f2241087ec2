"""Several inputs: each is read by a process of its own into a database of its own, and these are put together.

So the cores are used, memory is what the workers take, a file that cannot be read stops no other, and what an
interrupted analysis had finished is not read again. Run as a program it is such a worker.
"""

import json
import os
import subprocess
import sys
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path

import psutil

from .. import errors, sql
from ..errors import LorabenchError
from ..progress import Progress
from .database import Database, literal, open_database, quoted, sources_of
from .inputs import Input
from .settings import Settings

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
}
_NAMES = ("name_id", "text_id", "shape_id")
_NOT_COPIED = ("threshold", "kernel_class_rule", "device_peak", "name")


def worker_cnt(found: list[Input]) -> int:
    """How many workers at a time: as many as there are cores, large files and memory; 0 when none pays."""
    large = sum(item.size_bytes >= WORTH_A_WORKER for item in found)
    room = int(psutil.virtual_memory().available // _WORKER_MEMORY)
    count = min(len(os.sched_getaffinity(0)), large, max(room, 1))
    return count if count > 1 else 0


def read_in_workers(found: list[Input], parts: list[Path], count: int, progress: Progress) -> list[str | None]:
    """Make the part of each input; what went wrong for each, None where nothing did.

    Raises whatever stops this process, after its workers ended.
    """
    progress.step(f"reading {len(found)} files", len(found))
    running: set[subprocess.Popen[str]] = set()
    with ThreadPoolExecutor(count) as pool:
        tasks = [pool.submit(_read, item, part, running) for item, part in zip(found, parts, strict=True)]
        waiting: set[Future[str | None]] = set(tasks)
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


def _read(item: Input, part: Path, running: set[subprocess.Popen[str]]) -> str | None:
    words = [sys.executable, "-m", f"{__package__}.parts", str(item.path.absolute()), str(part.absolute())]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as worker:
        running.add(worker)
        said, complained = worker.communicate()
        running.discard(worker)
    if worker.returncode:
        last = (complained.strip().splitlines() or ["it said nothing"])[-1]
        return f"reading it ended with exit code {worker.returncode}: {last}"
    message: str | None = json.loads(said)
    return message


def is_current(part: Path, item: Input, reader_version: int) -> bool:
    """Whether a part left by an earlier analysis holds this input as it is now."""
    try:
        held = sources_of(part, Settings())
    except LorabenchError:
        return False
    return held == [(item.path.name, item.size_bytes, item.mtime_ns, reader_version)]


def append(database: Database, part: Path, source_id: int) -> None:
    """Put a part's rows into the database as those of one more source."""
    run = database.connection.execute
    run(f"attach {literal(str(part))} as part (read_only)")
    try:
        _append_names(database)
        shifts = {
            column: int(database.rows(f"select coalesce(max({columns[0]}) + 1, 0) from {quoted(table)}")[0][0])
            for table, columns in _KEYS.items()
            for column in columns
        }
        for table in sql.in_folder(sql.TABLES):
            if table.name not in _NOT_COPIED:
                _append_table(database, table.name, shifts, source_id)
    finally:
        run("drop table if exists temp.renamed")
        run("detach part")


def _append_names(database: Database) -> None:
    """Add the part's new texts; temp.renamed gets the key of each of its names here."""
    database.connection.execute(
        """create temp table renamed as
        with highest as (select coalesce(max(name_id), -1) as name_id from name)
        select
            theirs.name_id as theirs,
            coalesce(ours.name_id, (from highest) + sum((ours.name_id is null)::bigint) over (
                order by theirs.name_id rows unbounded preceding
            ))::bigint as ours,
            ours.name_id is null as is_new
        from part.name as theirs
        left join name as ours using (text)"""
    )
    database.connection.execute(
        "insert into name by name select ours as name_id, text "
        "from part.name join renamed on theirs = name_id where is_new"
    )


def _append_table(database: Database, table: str, shifts: dict[str, int], source_id: int) -> None:
    columns = [str(row[0]) for row in database.connection.execute(f"describe {quoted(table)}").fetchall()]
    values, joins = [], []
    for column in columns:
        if column == "source_id":
            values.append(str(source_id))
        elif column in _NAMES:
            values.append(f"of_{column}.ours")
            joins.append(f"left join renamed as of_{column} on of_{column}.theirs = part_row.{column}")
        else:
            values.append(f"part_row.{quoted(column)}" + (f" + {shifts[column]}" if column in shifts else ""))
    database.connection.execute(
        f"insert into {quoted(table)} select {', '.join(values)} "
        f"from part.{quoted(table)} as part_row {' '.join(joins)}"
    )


def main(path: str, part: str) -> None:
    """Make one part; print what went wrong as JSON, null when nothing did."""
    from . import inputs, pipeline

    try:
        pipeline.make_part(inputs.recognise(Path(path)), Path(part))
    except errors.CheckError:
        raise
    except LorabenchError as error:
        print(json.dumps(str(error)))
    else:
        open_database(Path(part)).close()
        print("null")


if __name__ == "__main__":
    main(*sys.argv[1:])
