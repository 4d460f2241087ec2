"""What the hooks of a pass left: a record of each process, its steps, and its traces, put where analyze finds them."""

import contextlib
import gzip
import json
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from ... import rundir
from .hook import start, steps, turns

TRACES = {"torch": "trace", "memory": "memory"}
_WORK = (b'"cpu_op"', b'"kernel"')
_CHUNK_BYTES = 1 << 20
_SHOWN_WORDS = 3
_NO_PYTHON = (
    "no Python process of the command loaded lorabench's hook: it is not a Python program, or Python was started with "
    "-I, -E or -S, or with an environment of its own; leave these out, or add lorabench.profile() to the script and "
    "run it by itself"
)
_NO_STEP = (
    "the command ran, but no step of a torch.optim optimizer was seen, so no step is timed; to see steps in the "
    'traces, put `with lorabench.span("step", number):` around each (docs/training-scripts.md, Ranges of your own)'
)
_PIPED = "; a pipe is not handed on, as each pass reads it from its start: give a file, < FILE"

Record = dict[str, Any]


_STEP_COMMAS = 12  # of a line that was written whole


@dataclass(frozen=True)
class Step:
    """A step of one process: when it began, how long it took, tokens that the model got (0: not known), how long it
    waited for batches of loaders, how many, and by how many workers they were made. Of what attention masks told (0:
    nothing): tokens, those that are no padding, and all if batches were padded to their longest sequence. How many
    backwards it had, calls of optimizers, a number for those that were called (hook/turns.py), and forwards without
    gradients or in eval mode, of which no backward came.
    """

    start_ns: int
    wall_ns: int
    token_cnt: int
    waited_ns: int = 0
    batch_cnt: int = 0
    worker_cnt: int = 0
    masked_cnt: int = 0
    real_cnt: int = 0
    longest_cnt: int = 0
    backward_cnt: int = 0
    optimizer_cnt: int = 0
    optimizer_key: int = 0
    unlearned_cnt: int = 0
    number: int | None = None  # where it is not that of its place


class Gathered:
    """What the processes of one pass left in the hook's folder."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._has_python = (folder / start.PYTHONS).exists()
        self._pass, self._schedule = _asked(folder / start.SETTINGS)
        found = [_read(path) for path in sorted(folder.glob("*-*.json"))]
        self.records = sorted(filter(None, found), key=_order)
        self._steps_by_name = {record["name"]: self._read_steps(record) for record in self.records}
        self._turns = {
            name: turns.length([step.optimizer_key for step in own]) for name, own in self._steps_by_name.items()
        }

    @property
    def notes(self) -> list[str]:
        """What the hooks noted, each once; a process that could not write its trace is named."""
        said = [note for record in self.records for note in record["notes"]]
        lost = [
            _lost(record, self._pass, self._schedule)
            for record in self.records
            if record["ended"] is None and self._is_missed(record)
        ]
        theirs = [_of_own_profiler(record) for record in self.records if record.get("profiles_itself")]
        return list(dict.fromkeys([*self._notes_of_turns(), *theirs, *said, *self._notes_of_schedule(), *lost]))

    def _notes_of_schedule(self) -> Iterator[str]:
        """That steps were too few for all that a schedule keeps; for nothing at all why_nothing() says it."""
        if self._pass not in TRACES or not self._schedule:
            return
        wait, warmup, active, repeat = self._schedule
        step_cnt = max((len(self._steps(record)) for record in self.records), default=0)
        cycle = wait + warmup + active
        if not wait + warmup < step_cnt < cycle * repeat:
            return
        whole, rest = divmod(step_cnt, cycle)
        kept = whole * active + max(0, rest - wait - warmup)
        kept_by_it = f"{active} step{'s' if active > 1 else ''}{f', {repeat} times' if repeat > 1 else ''}"
        yield (
            f"the schedule skips {wait}, warms up in {warmup} and keeps {kept_by_it}, so it needs "
            f"{_steps_of(cycle * repeat)}; the command made {step_cnt}: {kept} of {active * repeat} are recorded"
        )

    def _notes_of_turns(self) -> Iterator[str]:
        for name, turn in self._turns.items():
            if turn > 1:
                cnt = len({step.optimizer_key for step in self._steps_by_name[name]} - {turns.UNKNOWN})
                each = f"{turn} of theirs" if turn > cnt else "both" if turn == 2 else f"all {turn}"
                yield f"{cnt} optimizers take turns: a step is {each}"

    @property
    def turn(self) -> int:
        """How many steps of optimizers that take turns are one, 1 where none do."""
        return max(self._turns.values(), default=1)

    def _is_missed(self, record: Record) -> bool:
        """Whether a process without an end may have had something to record: loaders of data are ended so."""
        return not record["is_launcher"] and not (record["is_worker"] and not self._steps(record))

    @property
    def error(self) -> str | None:
        """The exception that ended a process first: that of a worker, before its launcher's."""
        failed = [record for record in self.records if record["error"]]
        failed.sort(key=lambda record: record["is_launcher"])
        if not failed:
            return None
        rank = failed[0]["rank"]
        return str(failed[0]["error"]) + (f" (rank {rank})" if rank is not None else "")

    def trained(self) -> list[tuple[Record, list[Step]]]:
        """The processes that trained, by rank, and the steps of each."""
        found = [(record, self._steps(record)) for record in self.records]
        return [(record, own) for record, own in found if own]

    def _steps(self, record: Record) -> list[Step]:
        """The steps of a process; turns of optimizers as one, without one that was not over."""
        own, turn = self._steps_by_name[record["name"]], self._turns[record["name"]]
        return own if turn == 1 else [_together(own[at : at + turn]) for at in range(0, len(own) - turn + 1, turn)]

    def _read_steps(self, record: Record) -> list[Step]:
        try:
            lines = (self._folder / (record["name"] + steps.SUFFIX)).read_text("utf-8").splitlines()
        except OSError:
            return []
        return [Step(*map(int, line.split(","))) for line in lines if line.count(",") == _STEP_COMMAS]

    def take_traces(self, pass_name: str, folder: Path) -> int:
        """Move the traces that hold work to the run directory, under names that say their rank; how many there are.

        Where some have steps, those without are left out: of launchers, of what came before the training.
        """
        worked = [(r, t) for r in self.records for t in r["traces"] if _has_work(self._folder / t["file"])]
        kept = [(r, t) for r, t in worked if t["step_cnt"]] or worked
        processes = list(dict.fromkeys(r["name"] for r, _ in kept))
        for name in processes:
            own = sorted(((r, t) for r, t in kept if r["name"] == name), key=lambda pair: pair[1]["first_step"])
            title = TRACES[pass_name] + _whose(own[0][0], processes, [r["rank"] for r, _ in kept if r["name"] != name])
            for number, (_, trace) in enumerate(own, 1):
                piece = f"-{number}" if len(own) > 1 else ""
                (self._folder / trace["file"]).rename(folder / f"{title}{piece}.json.gz")
            ledger = self._folder / (name + start.LEDGER)
            if ledger.exists() and len(own) == 1:  # of pieces each would need its own
                ledger.rename(folder / rundir.LEDGER.format(title.removeprefix(TRACES[pass_name])))
        return len(kept)

    def why_nothing(self) -> str:
        """Why there is no trace, and what to do."""
        if not self._has_python:
            return _NO_PYTHON
        if not self.records:
            return f"no Python process of the command imported torch{_PIPED if is_piped() else ''}"
        if all(record["is_launcher"] for record in self.records):
            return "the command only launched others, and none of them imported torch"
        return self._why_no_work()

    def _why_no_work(self) -> str:
        """Why processes that imported torch left no trace."""
        if start.OTHER_THREAD in self.notes:
            return start.OTHER_THREAD
        step_cnt = max(len(self._steps(record)) for record in self.records)
        if self._schedule and step_cnt <= sum(self._schedule[:2]):
            return _too_short(self._schedule, step_cnt)
        if step_cnt:
            return f"the command made {_steps_of(step_cnt)}, but nothing that it ran was recorded"
        if all(record["is_worker"] for record in self.records if not record["is_launcher"]):
            return "only processes of multiprocessing imported torch, which are recorded when they train, and none did"
        return "torch was imported, but it ran no operator"


def _together(parts: list[Step]) -> Step:
    """A turn of optimizers as one step."""
    added = {
        field.name: sum(getattr(step, field.name) for step in parts)
        for field in fields(Step)
        if field.name not in ("start_ns", "worker_cnt", "optimizer_key", "number")
    }
    workers = max(step.worker_cnt for step in parts)
    return Step(start_ns=parts[0].start_ns, worker_cnt=workers, **added)


def is_piped() -> bool:
    """Whether a pipe is lorabench's input."""
    try:
        return stat.S_ISFIFO(os.fstat(0).st_mode)
    except OSError:  # it is closed
        return False


def _too_short(schedule: list[int], step_cnt: int) -> str:
    """What a schedule needs that a command did not have."""
    wait, warmup, active, _ = schedule
    return (
        f"the schedule skips {wait} optimizer steps, warms up in {warmup} and keeps {active}, so it needs "
        f"{_steps_of(wait + warmup + active)}; the command made {step_cnt or 'none'}: train for longer, or "
        "leave the schedule out (--profiler torch), which records the first steps"
    )


def _steps_of(count: int) -> str:
    return f"{count} optimizer step{'s' if count > 1 else ''}"


def _asked(path: Path) -> tuple[str, list[int] | None]:
    """The pass, and torch.profiler's wait, warmup, active and repeat that the hooks got."""
    with contextlib.suppress(OSError, ValueError, KeyError):
        asked = json.loads(path.read_text("utf-8"))
        return str(asked.get("pass", "")), asked["schedule"]
    return "", None


def _read(path: Path) -> Record | None:
    with contextlib.suppress(OSError, ValueError, KeyError):
        record: Record = json.loads(path.read_text("utf-8"))
        return {"is_launcher": False, "is_worker": False} | record | {"name": path.stem}
    return None


def _order(record: Record) -> tuple[bool, int, int]:
    return record["rank"] is None, record["rank"] or 0, record["pid"]


def _whose(record: Record, processes: list[str], other_ranks: list[int | None]) -> str:
    rank = record["rank"]
    if rank is not None and rank not in other_ranks:
        return f"-rank{rank}"
    return f"-process{processes.index(record['name']) + 1}" if len(processes) > 1 else ""


def _lost(record: Record, pass_name: str, schedule: list[int] | None) -> str:
    words = " ".join(record["words"][:_SHOWN_WORDS])
    ended = f"process {record['pid']} ({words}) was ended by a signal or a crash"
    if pass_name not in TRACES:  # its clock wrote each step at once
        return f"{ended}; what led there: --profiler torch --active-steps 1 --repeat 0 writes a trace after each step"
    lost = f"{ended}, so what it recorded since its last trace is lost"
    has_each = schedule is not None and schedule[2:] == [1, 0]
    return lost if has_each else f"{lost}; --active-steps 1 --repeat 0 writes a trace after each step"


def _of_own_profiler(record: Record) -> str:
    """What came of a script's own profiler, and of the recording that made way for it."""
    counts = {whose: [t["step_cnt"] for t in record["traces"] if t["by"] == whose] for whose in ("script", "lorabench")}
    theirs, ours = counts["script"], sum(counts["lorabench"])
    traces = "1 trace" if len(theirs) == 1 else f"{len(theirs)} traces"
    if not theirs:
        said = "its own profiler left no trace to copy"
    elif sum(theirs):
        said = f"its own torch.profiler recorded {_steps_of(sum(theirs))} ({traces}, copies are kept)"
    else:
        said = f"its own torch.profiler recorded no optimizer step ({traces})"
    beside = f"lorabench recorded {_steps_of(ours)} beside that" if ours else "lorabench recorded no step beside that"
    return f"the script profiles itself: {said}; {beside}"


def _has_work(path: Path) -> bool:
    """Whether a trace has an operator or a kernel. It is read up to the first one."""
    try:
        return any(word in text for text in _overlapping(path) for word in _WORK)
    except (OSError, EOFError):
        return path.exists()  # analyze says what is wrong with it


def _overlapping(path: Path) -> Iterator[bytes]:
    with gzip.open(path, "rb") as file:
        rest = b""
        while chunk := file.read(_CHUNK_BYTES):
            yield rest + chunk
            rest = chunk[-len(max(_WORK, key=len)) :]


def settle(state: dict[str, Any], gathered: Gathered, trace_cnt: int | None, is_without_steps: bool) -> dict[str, Any]:
    """How a pass ended, with what the hooks know: a pass that should have traces and has none did not go well.

    So did one with a clock alone that is without steps.
    """
    if state["status"] == rundir.OK and trace_cnt == 0:
        state = state | {"status": rundir.SKIPPED, "message": gathered.why_nothing()}
    if state["status"] == rundir.OK and trace_cnt is None and is_without_steps:
        why = gathered.why_nothing() if not gathered.records else _NO_STEP
        state = state | {"status": rundir.SKIPPED, "message": why, "has_run": True}
    notes = [note for note in gathered.notes if note != state["message"]]
    return state | {"notes": notes} if notes else state
