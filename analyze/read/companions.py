"""Files beside a trace: of `lorabench collect` how the run was set up, the tokens of its steps and what its memory is
for; of torch.profiler a memory timeline.
"""

import csv
import re
from pathlib import Path

import duckdb

from ... import rundir, sql
from ...errors import InputError
from ...small_files import read_text
from ...vocabulary import MEMORY_OWNED
from ..store.database import Database

_FACTS = ("method", "peft_mode", "batch_operator", "graph_pruning", "lora_cnt", "model", "quant")
_PARALLEL_FACTS = ("parallel", "devices", "pp_schedule", "micro_batches", "grad_accum")

# torch's Profile.export_memory_timeline("x.raw.json.gz"): a list of [ns, action, bytes, number of the category].
_TIMELINE = "*.raw.json.gz"
_TIMELINE_ROWS = 20_000_000
_EXISTED, _CREATED = 1, 2  # actions
_TIMELINE_CATEGORIES = ("parameter", "optimizer_state", "input", "temporary", "activation", "gradient",
                        "autograd_detail")  # fmt: skip
# What the memory pass leaves: of one process, traces of one cycle of the profiler.
_MEMORY_TRACE = re.compile(r"(memory|snapshot)(?P<worker>-adapter_\d+|-rank\d+)?(-\d+)?\.(json|json\.gz|pickle)")
_STEP_TIMES = {
    "run: step without a profiler ns": rundir.STEP_MEDIAN,
    "run: mean step without a profiler ns": rundir.STEP_MEAN,
    "run: longest step without a profiler ns": rundir.STEP_LONGEST,
    "run: wait for input in a step ns": rundir.STEP_WAITED,
    "run: step that waits for input ns": rundir.STEP_WAITING,
}
_STEP_TOKENS = {
    "run: tokens in the masks of a step": rundir.STEP_TOKENS,
    "run: tokens of a step without padding": rundir.STEP_REAL_TOKENS,
    "run: tokens of a step padded to the longest sequence of each batch": rundir.STEP_LONGEST_TOKENS,
}
_LEDGER_TYPES = {"time_ns": "bigint", "device": "varchar", "address": "bigint", "bytes": "bigint",
                 "category": "varchar", "name": "varchar", "adapter": "varchar", "is_before": "boolean"}  # fmt: skip


def add(database: Database, source_id: int, trace: Path) -> None:
    """Add what the trace's folder says; nothing where it is no run directory, a loss where its files are damaged."""
    folder = trace.parent
    facts = [*_manifest(folder), *_measured(folder), *_steps(database, source_id, folder)]
    facts += [*_ledger(database, source_id, trace), *_timelines(database, source_id, folder)]
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
    names = _FACTS if known.get("parallel") in (None, "none") else _FACTS + _PARALLEL_FACTS
    return [("about", f"run: {name}", str(known[name])) for name in names if known.get(name) is not None]


def _measured(folder: Path) -> _Facts:
    """How long a step of the run took without a profiler, the median and the longest in ns, how long it waited for
    input there, its padding, and what it ran on.
    """
    if not all((folder / name).is_file() for name in (rundir.MANIFEST, rundir.SUMMARY)):
        return []
    try:
        summary = rundir.read_summary(folder)
        times = {item: rundir.number_at(summary, *place) for item, place in _STEP_TIMES.items()}
        counts = {item: rundir.number_at(summary, *place) for item, place in _STEP_TOKENS.items()}
        rank = rundir.number_at(summary, *rundir.WAITING_RANK)
    except InputError as error:
        return [("lost", rundir.SUMMARY, str(error))]
    # of a script, whose first steps compile and load, one step says nothing
    if "warmup_step_cnt" in summary and rundir.number_at(summary, "step_cnt") == 1:
        times = {}
    device = summary.get("device")
    kind = device.get("type") if isinstance(device, dict) else None
    known = {item: round(number) for item, number in (times | counts).items() if number} | {"run: device": kind}
    if rank is not None and times:
        known["run: rank that waits for input"] = str(round(rank))
    return [("about", item, str(value)) for item, value in known.items() if value]


def _steps(database: Database, source_id: int, folder: Path) -> _Facts:
    """Fill run_step from the first pass: all compute the same."""
    path = folder / rundir.STEPS
    if not path.is_file():
        return []
    tokens: dict[int, tuple[int, int | None]] = {}
    try:
        rows = [row for row in csv.DictReader(read_text(path).splitlines()) if not row.get("rank")]
        for row in rows:
            if row["pass"] == rows[0]["pass"]:
                step = int(row["step"])
                if count := row["computed_token_cnt"]:
                    before, real_before = tokens.get(step, (0, 0))
                    real = row.get("token_cnt")
                    real_so_far = real_before + int(real) if real and real_before is not None else None
                    tokens[step] = before + int(count), real_so_far
    except (OSError, ValueError, KeyError, TypeError, csv.Error) as error:
        return [("lost", rundir.STEPS, f"it is not a list of steps ({type(error).__name__}: {error})")]
    if not all(row.get("adapter") for row in rows):
        tokens = _of_any_step(tokens)
    for step, counts in tokens.items():
        database.connection.execute("insert into run_step values (?, ?, ?, ?)", [source_id, step, *counts])
    return []


def _of_any_step(tokens: dict[int, tuple[int, int | None]]) -> dict[int, tuple[int, int | None]]:
    """Tokens of somebody else's steps, whose numbers here and in a trace may differ: known where all took as many."""
    if len({count for count, _ in tokens.values()}) != 1:
        return {}
    every = set(tokens.values())
    count = next(iter(every))[0]
    return dict.fromkeys(range(max(tokens) + 2), every.pop() if len(every) == 1 else (count, None))


def _ledger(database: Database, source_id: int, trace: Path) -> _Facts:
    """Fill memory_owner from the ledger of the memory pass, on the clock of its trace."""
    found = _MEMORY_TRACE.fullmatch(trace.name)
    if found is None:
        return []
    path = trace.with_name(rundir.LEDGER.format(found["worker"] or ""))
    if not path.is_file():
        return []
    try:
        database.connection.execute(
            "insert into memory_owner "
            + sql.staging("ledger_owner", categories=str(MEMORY_OWNED), types=str(_LEDGER_TYPES)),
            [str(path), source_id],
        )
    except duckdb.Error as error:
        return [("lost", path.name, f"it is not a ledger ({str(error).splitlines()[0]})")]
    return []


def _timelines(database: Database, source_id: int, folder: Path) -> _Facts:
    """Fill memory_owner from torch's memory timelines, whose rows are found among the trace's by time and size."""
    ((has_memory,),) = database.rows("select count(*) > 0 from staged_memory_event")
    if not has_memory:
        return []
    run, lost = database.connection.execute, []
    for path in sorted(path for path in folder.glob(_TIMELINE) if path.is_file()):
        try:
            run(
                "create or replace temp table timeline as " + sql.staging("timeline_entry"),
                [str(path.absolute()), _TIMELINE_ROWS + 1],
            )
            ((rows, bad),) = database.rows("select count(*), count(*) filter (len(entry) <> 4) from timeline")
            if rows > _TIMELINE_ROWS or bad:
                raise ValueError(f"{bad} entries without four numbers" if bad else f"over {_TIMELINE_ROWS:,} entries")
            run(
                "insert into memory_owner " + sql.staging("timeline_owner", categories=str(list(_TIMELINE_CATEGORIES))),
                [source_id, _CREATED, _EXISTED],
            )
        except (ValueError, duckdb.Error) as error:
            said = str(error).splitlines()[0]
            lost.append(("lost", path.name, f"it is not a memory timeline of torch ({type(error).__name__}: {said})"))
        finally:
            database.connection.execute("drop table if exists temp.timeline")
    return lost
