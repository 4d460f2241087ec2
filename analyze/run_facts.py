"""What `lorabench collect` wrote beside a trace: how the run was set up, its steps' tokens, what its memory is for."""

import csv
import re
from pathlib import Path

import duckdb

from .. import rundir
from ..errors import InputError
from ..vocabulary import MEMORY_OWNED
from .database import Database

_FACTS = ("method", "peft_mode", "batch_operator", "graph_pruning", "lora_cnt", "model", "quant")


# The traces of the memory pass: of one process, and of one cycle of the profiler.
_MEMORY_TRACE = re.compile(r"memory(?P<worker>-adapter_\d+)?(-\d+)?\.json(\.gz)?")
_LEDGER_TYPES = {"time_ns": "bigint", "device": "varchar", "address": "bigint", "bytes": "bigint",
                 "category": "varchar", "name": "varchar", "adapter": "varchar", "is_before": "boolean"}  # fmt: skip


def add(database: Database, source_id: int, trace: Path) -> None:
    """Add what the trace's folder says; nothing where it is no run directory, a loss where its files are damaged."""
    folder = trace.parent
    facts = (*_manifest(folder), *_steps(database, source_id, folder), *_ledger(database, source_id, trace))
    for section, item, value in facts:
        database.connection.execute(
            "insert into source_fact (source_id, section, item, value) values (?, ?, ?, ?)",
            [source_id, section, item, value],
        )


_Facts = list[tuple[str, str, str]]  # section, item, value


def _manifest(folder: Path) -> _Facts:
    """How the run was set up."""
    if not (folder / rundir.MANIFEST).is_file():
        return []
    try:
        spec = rundir.read_manifest(folder).get("spec")
    except InputError as error:
        return [("lost", rundir.MANIFEST, str(error))]
    known = spec if isinstance(spec, dict) else {}
    return [("about", f"run: {name}", str(known[name])) for name in _FACTS if known.get(name) is not None]


def _steps(database: Database, source_id: int, folder: Path) -> _Facts:
    """Fill run_step from the first pass: all compute the same."""
    path = folder / rundir.STEPS
    if not path.is_file():
        return []
    tokens: dict[int, int] = {}
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        for row in rows:
            if row["pass"] == rows[0]["pass"]:
                step = int(row["step"])
                tokens[step] = tokens.get(step, 0) + int(row["computed_token_cnt"])
    except (OSError, ValueError, KeyError, TypeError, csv.Error) as error:
        return [("lost", rundir.STEPS, f"it is no list of steps ({type(error).__name__}: {error})")]
    for step, count in tokens.items():
        database.connection.execute("insert into run_step values (?, ?, ?)", [source_id, step, count])
    return []


def _ledger(database: Database, source_id: int, trace: Path) -> _Facts:
    """Fill memory_owner from the ledger of the memory pass, on the clock of its trace."""
    found = _MEMORY_TRACE.fullmatch(trace.name)
    path = trace.with_name(rundir.LEDGER.format((found and found["worker"]) or ""))
    if found is None or not path.is_file():
        return []
    try:
        database.connection.execute(
            f"""insert into memory_owner
            select source_id, time_ns - origin_ns, device, address, bytes, category, nullif(name, ''),
                nullif(adapter, ''), is_before
            from read_csv(?, header = true, auto_detect = false, columns = {_LEDGER_TYPES})
            cross join (select source_id, coalesce(origin_ns, 0) as origin_ns from source where source_id = ?)
            where category in {MEMORY_OWNED}""",
            [str(path), source_id],
        )
    except duckdb.Error as error:
        return [("lost", path.name, f"it is no ledger ({str(error).splitlines()[0]})")]
    return []
