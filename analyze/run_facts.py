"""What `lorabench collect` wrote beside a trace: how the run was set up, and the tokens of its steps."""

import csv
from pathlib import Path

from .. import rundir
from ..errors import InputError
from .database import Database

_FACTS = ("method", "peft_mode", "batch_operator", "graph_pruning", "lora_cnt", "model", "quant")


def add(database: Database, source_id: int, folder: Path) -> None:
    """Add what the trace's folder says; nothing where it is no run directory, a loss where its files are damaged."""
    for section, item, value in (*_manifest(folder), *_steps(database, source_id, folder)):
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
