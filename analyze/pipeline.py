"""Inputs in, a finished database out; an unchanged input is not read twice."""

import csv
import re
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from .. import rundir
from ..errors import CorruptInputError, InputError, UsageError
from ..progress import Progress, Silent
from ..vocabulary import SOURCE_KINETO, SOURCE_NSYS
from . import checks, inputs, kineto_json, model, nsys_report, nsys_sqlite, parts
from .database import Database, building, create_views, open_database, sources_of
from .inputs import Input, Kind
from .settings import Settings
from .staging import Staging


def _refuse(path: Path, staging: Staging) -> None:
    raise CorruptInputError(inputs.recognise(path).problem)


_READERS: dict[Kind, tuple[str | None, int, Callable[[Path, Staging], None]]] = {
    Kind.UNREADABLE: (None, 0, _refuse),
    Kind.NSYS_SQLITE: (SOURCE_NSYS, nsys_sqlite.READER_VERSION, nsys_sqlite.read),
    Kind.NSYS_REPORT: (SOURCE_NSYS, nsys_sqlite.READER_VERSION, nsys_sqlite.read),
    Kind.KINETO: (SOURCE_KINETO, kineto_json.READER_VERSION, kineto_json.read),
}
_RANK = re.compile(r"rank[-_. ]?(\d{1,6})", re.IGNORECASE)
_RUN_FACTS = ("method", "peft_mode", "batch_operator", "graph_pruning", "lora_cnt", "model", "quant")
WHOLE_FILE = "the whole file"  # the loss of an input that could not be read while others could


def analyze(
    paths: list[Path],
    database: Path,
    *,
    force: bool = False,
    progress: Progress | None = None,
    settings: Settings | None = None,
) -> Database:
    """Read the inputs into a database at the given path, or open it when it already holds them unchanged.

    A single .duckdb input is opened as it is. Of several inputs those that can be read make the database, and the
    others are facts of it (section 'lost', item 'the whole file'). Raises InputError when none can be read, OutputError
    when the database cannot be written, CheckError when an identity does not hold.
    """
    found = inputs.find(paths)
    if [item.kind for item in found] == [Kind.DATABASE]:
        if settings not in (None, Settings()):
            raise UsageError(f"{found[0].path} keeps the settings that it was made with; give the trace it was made of")
        return open_database(found[0].path)
    if any(item.path.absolute() == database.absolute() for item in found):
        raise UsageError(f"{database} is an input; choose another place for the database with --db")
    settings = settings or Settings()
    held = sources_of(database, settings)  # never replace a file that is not a lorabench database
    if not force and held == [(i.path.name, i.size_bytes, i.mtime_ns, _READERS[i.kind][1]) for i in found]:
        return open_database(database)
    progress = progress or Silent()
    left = database.with_name(f"{database.name}.parts")
    if len(found) > 1:
        _make_parts(found, left, force, progress)
    with building(database, settings) as new:
        if len(found) > 1:
            progress.step("putting the parts together", len(found))
            for number, item in enumerate(found, start=1):
                _append(new, number, item, _part(left, number))
                progress.advance(1)
        else:
            _ingest(new, 1, found[0], progress)
        create_views(new)
        progress.step("checks")
        checks.run(new)
    shutil.rmtree(left, ignore_errors=True)
    return open_database(database)


def make_part(item: Input, path: Path) -> None:
    """A database with one input and no views."""
    with building(path) as new:
        _ingest(new, 1, item, Silent())


def _part(folder: Path, number: int) -> Path:
    return folder / f"{number}.duckdb"


def _failure(part: Path) -> Path:
    """Where it is written why there is no part."""
    return part.with_suffix(".error")


def _make_parts(found: list[Input], folder: Path, force: bool, progress: Progress) -> None:
    """A part for each input, or why there is none; those of an interrupted analysis are kept. Raises InputError when
    no input can be read."""
    if force:
        shutil.rmtree(folder, ignore_errors=True)
    numbered = [(item, _part(folder, number)) for number, item in enumerate(found, start=1)]
    wanted = [(item, part) for item, part in numbered if not parts.is_current(part, item, _READERS[item.kind][1])]
    count = parts.worker_cnt([item for item, _ in wanted])
    if count:
        folder.mkdir(parents=True, exist_ok=True)
        messages = parts.read_in_workers([i for i, _ in wanted], [p for _, p in wanted], count, progress)
    else:
        messages = [_try_part(item, part, progress) for item, part in wanted]
    for (_, part), message in zip(wanted, messages, strict=True):
        _failure(part).unlink(missing_ok=True)
        if message is not None:
            part.unlink(missing_ok=True)
            _failure(part).parent.mkdir(parents=True, exist_ok=True)
            _failure(part).write_text(message, "utf-8")
    failed = [message for message in messages if message is not None]
    if len(failed) == len(found):
        shutil.rmtree(folder, ignore_errors=True)
        raise InputError(f"none of the {len(found)} inputs can be read; the first: {failed[0]}")


def _try_part(item: Input, part: Path, progress: Progress) -> str | None:
    progress.step(item.path.name)
    try:
        make_part(item, part)
    except InputError as error:
        return str(error)
    return None


def _append(database: Database, source_id: int, item: Input, part: Path) -> None:
    """One input's rows, or a source without any that says why."""
    if not _failure(part).exists():
        parts.append(database, part, source_id)
        return
    _add_source(database, source_id, item)
    database.connection.execute(
        "insert into source_fact (source_id, section, item, value) values (?, 'lost', ?, ?)",
        [source_id, WHOLE_FILE, _failure(part).read_text("utf-8")],
    )


def _add_run(database: Database, source_id: int, folder: Path) -> None:
    """What the manifest beside a trace says of the run that it was recorded in: facts of the source."""
    if not (folder / rundir.MANIFEST).is_file():
        return
    try:
        spec = rundir.read_manifest(folder).get("spec")
    except InputError as error:
        facts = [("lost", rundir.MANIFEST, str(error))]
    else:
        known = spec if isinstance(spec, dict) else {}
        facts = [("about", f"run: {name}", str(known[name])) for name in _RUN_FACTS if known.get(name) is not None]
    for section, name, value in facts:
        database.connection.execute(
            "insert into source_fact (source_id, section, item, value) values (?, ?, ?, ?)",
            [source_id, section, name, value],
        )


def _add_steps(database: Database, source_id: int, folder: Path) -> None:
    """The tokens of each step, from the steps.csv beside a trace: those of its first pass, all compute the same."""
    path = folder / rundir.STEPS
    if not path.is_file():
        return
    tokens: dict[int, int] = {}
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        for row in rows:
            if row["pass"] == rows[0]["pass"]:
                step = int(row["step"])
                tokens[step] = tokens.get(step, 0) + int(row["computed_token_cnt"])
    except (OSError, ValueError, KeyError, TypeError, csv.Error) as error:
        database.connection.execute(
            "insert into source_fact (source_id, section, item, value) values (?, 'lost', ?, ?)",
            [source_id, rundir.STEPS, f"it is no list of steps ({type(error).__name__}: {error})"],
        )
        return
    for step, count in tokens.items():
        database.connection.execute("insert into run_step values (?, ?, ?)", [source_id, step, count])


def _add_source(database: Database, source_id: int, item: Input) -> None:
    kind, version, _ = _READERS[item.kind]
    database.connection.execute(
        "insert into source (source_id, kind, name, size_bytes, mtime_ns, reader_version) values (?, ?, ?, ?, ?, ?)",
        [source_id, kind, item.path.name, item.size_bytes, item.mtime_ns, version],
    )


def _ingest(database: Database, source_id: int, item: Input, progress: Progress) -> None:
    """Read one input and complete the model for it."""
    _, _, read = _READERS[item.kind]
    _add_source(database, source_id, item)
    staging = Staging(database, source_id, progress)
    staging.create()
    with ExitStack() as stack:
        path = item.path
        if item.kind is Kind.NSYS_REPORT:
            progress.step("nsys export")
            path = stack.enter_context(nsys_report.exported(path))
        try:
            read(path, staging)
        except OSError as error:
            raise InputError(f"cannot read {item.path}: {error.strerror}") from error
    _add_run(database, source_id, item.path.parent)
    _add_steps(database, source_id, item.path.parent)
    rank = _RANK.search(item.path.name)
    if rank:
        database.connection.execute(
            "update source set rank = ? where source_id = ? and rank is null", [int(rank[1]), source_id]
        )
    model.complete(staging)
